"""The form of RTE without a hub: does a claim follow from a passage."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isoloss.corpora.big_bench import BIG_BENCH, CLAIMS, big_bench_file, is_at_hand
from isoloss.corpora.labelled_texts import LabelledTexts, TextTask
from isoloss.corpora.task_splits import Shares, split_by_hash
from isoloss.progress import Progress

CLASSES = ("follows", "does not")
SHARES = Shares(validation=0.1, test=0.2)

_CLAIM = "\nClaim: "


@dataclass(frozen=True)
class VerifiedClaims:
    """A `TaskSource`: VitaminC's passages and claims; a claim that is true of its passage follows from it.

    One that is false and one that the passage leaves open do not, as RTE counts them. All claims about one
    page are in one part.
    """

    @property
    def name(self) -> str:
        """See `TaskSource`."""
        return "RTE form"

    @property
    def description(self) -> str:
        """See `TaskSource`."""
        return (
            "A passage from an encyclopaedia and a claim: does it follow, or is it false or left open. "
            "Passages and claims of VitaminC (MIT; passages CC BY-SA 3.0; package "
            f"{BIG_BENCH.package}, Apache-2.0). No page is in two parts."
        )

    def is_at_hand(self, cache: Path) -> bool:
        """See `TaskSource`."""
        return is_at_hand(cache)

    def task(self, cache: Path, progress: Progress) -> TextTask:
        """See `TaskSource`."""
        return claims_task(self.name, big_bench_file(CLAIMS, cache, progress)["examples"])


def claims_task(name: str, examples: list[dict[str, Any]]) -> TextTask:
    r"""The task of examples such as BIG-bench's; the page is what a passage begins with, up to a colon.

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
        (*example["input"].split(_CLAIM, maxsplit=1), example["target_scores"]["True"])
        for example in examples
    ]
    passages, claims, true = zip(*read, strict=True)
    labels = tuple(int(not follows) for follows in true)
    pages = [passage.partition(":")[0] for passage in passages]
    return split_by_hash(name, CLASSES, LabelledTexts(passages, claims, labels), SHARES, pages)
