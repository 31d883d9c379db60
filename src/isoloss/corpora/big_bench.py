"""Two files of BIG-bench's source distribution, from which tasks of text pairs are made."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from isoloss.corpora.fetched_package import FetchedPackage
from isoloss.corpora.labelled_texts import LabelledTexts, TextTask
from isoloss.corpora.task_splits import Shares, split_by_hash
from isoloss.progress import Progress

CLASSES = ("follows", "does not")
SHARES = Shares(validation=0.1, test=0.2)
_CLAIM = "\nClaim: "
FileName = Literal["squaddev_v1.1.json", "task.json"]
QUESTIONS: FileName = "squaddev_v1.1.json"
"""SQuAD 1.1's development part (Rajpurkar et al. 2016): 10,570 questions about 48 articles. CC BY-SA 4.0."""

CLAIMS: FileName = "task.json"
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

FOLDER = "questions-and-claims"


def is_at_hand(cache: Path) -> bool:
    """Whether both files are in `cache`."""
    return BIG_BENCH.is_at_hand(cache / FOLDER)


def big_bench_file(name: FileName, cache: Path, progress: Progress) -> Any:
    """One of the two files; both are fetched if they are missing. Raises as `FetchedPackage.files`."""
    paths = {path.name: path for path in BIG_BENCH.files(cache / FOLDER, progress)}
    return json.loads(paths[name].read_bytes())


@dataclass(frozen=True)
class VerifiedClaims:
    """A `TaskSource`: VitaminC's passages and claims; a claim that is true given its passage is entailed.

    A claim that is false or left open by the passage is not, as in RTE. All claims about one page are in one
    part.
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
        (*example["input"].split(_CLAIM, maxsplit=1), example["target_scores"]["True"])
        for example in examples
    ]
    passages, claims, true = zip(*read, strict=True)
    labels = tuple(int(not follows) for follows in true)
    pages = [passage.partition(":")[0] for passage in passages]
    return split_by_hash(name, CLASSES, LabelledTexts(passages, claims, labels), SHARES, pages)
