"""A task on real text as the models of a corpus are measured on it."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from isoloss.checked_files import Tensors, data_of, text_tensor
from isoloss.corpora.fetched_package import default_cache
from isoloss.corpora.labelled_texts import LabelledTexts, TaskSource, TextTask
from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.corpora.shared_texts import stand_in_validation
from isoloss.corpora.task_splits import TaskSizes
from isoloss.progress import Progress


@dataclass(frozen=True)
class DrawnTask:
    """`left_out` counts test texts that stand in the corpus's validation part: they are not in the test."""

    task: TextTask
    left_out: int

    def tensors(self) -> Tensors:
        """All of it, as the bytes of JSON."""
        return {"task": text_tensor(asdict(self))}


def restored_task(tensors: Tensors) -> DrawnTask:
    """What `DrawnTask.tensors` kept."""
    content = data_of(tensors["task"])
    task = content["task"]
    parts = (_texts(task[part]) for part in ("train", "validation", "test"))
    return DrawnTask(TextTask(task["name"], tuple(task["classes"]), *parts), content["left_out"])


def _texts(part: dict[str, Any]) -> LabelledTexts:
    seconds = None if part["seconds"] is None else tuple(part["seconds"])
    return LabelledTexts(tuple(part["texts"]), seconds, tuple(part["labels"]))


def drawn_task(source: TaskSource, sizes: TaskSizes, corpus: PackedCorpus, progress: Progress) -> DrawnTask:
    """The task, so that no text is in the pre-training validation part and in the test, cut to `sizes`.

    Raises IsolossError where the task's texts cannot be had.
    """
    progress(f"texts of {source.name}", 0, 1)
    task = source.task(default_cache(), progress)
    standing = stand_in_validation(corpus, task.test)
    kept = [row for row, stands in enumerate(standing) if not stands]
    return DrawnTask(sizes.of(replace(task, test=task.test[kept])), len(task.test) - len(kept))
