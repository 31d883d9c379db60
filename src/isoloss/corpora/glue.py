"""GLUE's own tasks (Wang et al. 2018), if a hub or its cache has them."""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from isoloss.corpora.data_sets import load_data_set
from isoloss.corpora.labelled_texts import (
    LabelledTexts,
    Shares,
    TextTask,
    distinct,
    example_hashes,
    split_by_hash,
)
from isoloss.progress import Progress

HUB_NAME = "nyu-mll/glue"
SHARES = Shares(validation=0.05)
"""The share of the training examples held out for validation. GLUE does not publish the labels of its test
part, so its validation part is the test set here, and a fine-tuned model's epoch is chosen on others."""

GlueName = Literal["sst2", "qnli", "rte"]
_COLUMNS: dict[GlueName, tuple[str, ...]] = {
    "sst2": ("sentence",),
    "qnli": ("question", "sentence"),
    "rte": ("sentence1", "sentence2"),
}
_TITLES: dict[GlueName, str] = {"sst2": "SST-2", "qnli": "QNLI", "rte": "RTE"}


@dataclass(frozen=True)
class GlueTask:
    """A `TaskSource`: one of GLUE's tasks (Wang et al. 2018), by its name on the hub.

    It is read once; `commit` is what was read.
    """

    task_name: GlueName

    @property
    def name(self) -> str:
        return _TITLES[self.task_name]

    @property
    def description(self) -> str:
        return (
            f"{self.name} of GLUE ({HUB_NAME}, {self.task_name}). Its validation part is the test here; "
            f"{SHARES.validation:.0%} of its training part, by hash, chooses the epoch. Licences: GLUE's "
            "page."
        )

    def is_at_hand(self, cache: Path) -> bool:
        """See `TaskSource`: always asked for by those who name it."""
        return True

    def task(self, cache: Path, progress: Progress) -> TextTask:
        """See `TaskSource`; raises as `load_data_set`. No test example is among the others."""
        progress("fetching", 0, 1, f"{HUB_NAME}, {self.task_name}")
        loaded = self._loaded
        progress("fetching", 1, 1)
        classes = tuple(str(name) for name in loaded["train"].features["label"].names)
        train, test = (_examples(loaded[p], _COLUMNS[self.task_name]) for p in ("train", "validation"))
        test = distinct(test)
        tested = set(example_hashes(test))
        others = train[[row for row, key in enumerate(example_hashes(train)) if key not in tested]]
        return replace(split_by_hash(self.name, classes, others, SHARES), test=test)

    @property
    def commit(self) -> str | None:
        """The commit that is read; None if it is not known. Raises as `task`.

        `datasets` keeps what it read in a folder of that name, which can be asked without a network.
        """
        paths = [Path(file["filename"]) for file in self._loaded["train"].cache_files]
        names = [name for path in paths for name in path.parts if re.fullmatch("[0-9a-f]{40}", name)]
        return names[-1] if names else None

    @cached_property
    def _loaded(self) -> Any:
        return load_data_set(f"{HUB_NAME}:{self.task_name}")


def _examples(part: Any, columns: tuple[str, ...]) -> LabelledTexts:
    seconds = tuple(part[columns[1]]) if len(columns) == 2 else None
    return LabelledTexts(tuple(part[columns[0]]), seconds, tuple(int(label) for label in part["label"]))
