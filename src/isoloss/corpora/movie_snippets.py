"""SST-2's form without a hub: one-sentence verdicts on films, positive or negative."""

import csv
import html
import io
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path

from isoloss.corpora.documents import is_held_out
from isoloss.corpora.fetched_package import FetchedPackage
from isoloss.corpora.labelled_texts import LabelledTexts, TextTask
from isoloss.corpora.stand_ins import REVIEWS
from isoloss.corpora.task_splits import distinct, example_hashes
from isoloss.errors import BadInput
from isoloss.progress import Progress

CLASSES = ("negative", "positive")

SCORED = FetchedPackage(
    package="vaderSentiment==3.3.2",
    members="*/additional_resources/hutto_ICWSM_2014.tar.gz",
    what="scored snippets",
    digest="d5bb07d87474b3eb8d30b4deccbc23f19d742a6c5718fbacc65485b70b95c5fa",
    megabytes=3,
    source="5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
)
"""10,605 snippets, each with the mean score of twenty people."""

SCORED_PATH = "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt"
NEUTRAL = 0.8
"""Scores within this of 0, on a scale from -4 to 4, are no label: the middle fifth of the scale, which SST-2
leaves out too (Socher et al. 2013, Recursive Deep Models for Semantic Compositionality)."""

VALIDATION_SHARE = 0.1


@dataclass(frozen=True)
class MovieSnippets:
    """A `TaskSource`: snippets of Pang and Lee (2005), Seeing Stars, from which SST-2's sentences come too.

    Training and validation texts have the label of the review from which they are taken. The test set is the
    scored snippets that are not among these, labelled by the sign of their mean score.
    """

    @property
    def name(self) -> str:
        """See `TaskSource`."""
        return "SST-2 form"

    @property
    def description(self) -> str:
        """See `TaskSource`."""
        return (
            "Sentences from film reviews, good or bad: for training with the label of their review (package "
            f"{REVIEWS.package}, MIT), for the test others of the same collection with the sign of the mean "
            f"of twenty people's scores, those within {NEUTRAL} of 0 on a scale from -4 to 4 left out as "
            f"SST-2 leaves them out (package {SCORED.package}, MIT). The texts are reviewers' own and under "
            "no stated licence: they are fetched, and never passed on."
        )

    def is_at_hand(self, cache: Path) -> bool:
        """See `TaskSource`."""
        return REVIEWS.is_at_hand(cache / "reviews") and SCORED.is_at_hand(cache / "scored-snippets")

    def task(self, cache: Path, progress: Progress) -> TextTask:
        """See `TaskSource`."""
        (reviews,) = REVIEWS.files(cache / "reviews", progress)
        (scored,) = SCORED.files(cache / "scored-snippets", progress)
        labelled = labelled_snippets(reviews.read_text("utf-8"))
        return snippet_task(self.name, labelled, scored_snippets(scored.read_bytes()))


def snippet_task(name: str, labelled: LabelledTexts, scored: LabelledTexts) -> TextTask:
    """The task of these snippets; duplicates are recognised regardless of punctuation and spacing.

    >>> labelled = LabelledTexts(tuple(f"film {n}" for n in range(40)), None, (0, 1) * 20)
    >>> scored = LabelledTexts(("Film 7.", "A new one"), None, (1, 1))
    >>> task = snippet_task("films", labelled, scored)
    >>> len(task.train) + len(task.validation), task.test.texts
    (40, ('A new one',))
    """
    labelled = distinct(labelled)
    held_out = [is_held_out(own, VALIDATION_SHARE) for own in example_hashes(labelled)]
    known = {_letters(text) for text in labelled.texts}
    fresh = [row for row, text in enumerate(scored.texts) if _letters(text) not in known]
    return TextTask(
        name,
        CLASSES,
        train=labelled[[row for row, out in enumerate(held_out) if not out]],
        validation=labelled[[row for row, out in enumerate(held_out) if out]],
        test=distinct(scored[fresh]),
    )


def labelled_snippets(reviews: str) -> LabelledTexts:
    """The snippets with the label of their review, from a table with the columns text, label, source."""
    rows = [row for row in csv.DictReader(io.StringIO(reviews)) if row["source"] == "rotten_tomatoes"]
    return LabelledTexts(tuple(row["text"] for row in rows), None, tuple(int(row["label"]) for row in rows))


def scored_snippets(archive: bytes) -> LabelledTexts:
    """The snippets whose score is not neutral, 1 for a positive one, formatted like the labelled ones.

    In lower case with punctuation separated, so that formatting does not reveal a text's part.
    """
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        file = files.extractfile(SCORED_PATH)
        if file is None:
            raise BadInput(f"the archive of {SCORED.what} holds no {SCORED_PATH}; delete it and try again")
        lines = [line.split("\t") for line in file.read().decode().splitlines()]
    scores = [(float(score), _as_labelled(text)) for _, score, text in lines]
    kept = [(score, text) for score, text in scores if abs(score) > NEUTRAL]
    return LabelledTexts(tuple(text for _, text in kept), None, tuple(int(score > 0) for score, _ in kept))


def _as_labelled(text: str) -> str:
    r"""In lower case, with HTML entities and two apostrophes for a quotation mark undone, marks set apart.

    >>> _as_labelled("Lovely &amp; Amazing, ''Z Boys'' isn't dull.")
    'lovely & amazing , " z boys " isn\'t dull .'
    """
    plain = html.unescape(text).replace("''", '"').lower()
    return " ".join(re.sub(r'([.,;:!?"()])', r" \1 ", plain).split())


def _letters(text: str) -> str:
    """The text's letters and digits only: the collections differ in punctuation, spacing and encoding."""
    return re.sub(r"[^a-z0-9]", "", html.unescape(text).lower())
