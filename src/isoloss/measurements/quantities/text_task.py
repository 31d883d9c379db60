"""Accuracy on a task on real text, by linear probe and by fine-tuning (A.5), with the majority baseline."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

from transformers import PreTrainedModel

from isoloss.corpora.fetched_package import default_cache
from isoloss.corpora.labelled_texts import LabelledTexts, TaskSource, TextTask
from isoloss.corpora.packed_corpus import PackedCorpus, stand_in_validation
from isoloss.corpora.task_splits import TaskSizes
from isoloss.measurements.fine_tuning_run import FineTuningSettings
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.measurements.quantities.probe import accuracy_columns, accuracy_names, accuracy_of
from isoloss.measurements.quantity import Columns, Measurement, Subject, names_with_errors, value_and_error
from isoloss.measurements.text_features import majority_record, text_probe
from isoloss.measurements.text_fine_tuning import fine_tune_text
from isoloss.models.tokenizer import load_tokenizer
from isoloss.objectives.batch import PretrainingObjective
from isoloss.progress import Progress
from isoloss.results.record import Record
from isoloss.results.tensors import Tensors, data_of, text_tensor


@dataclass(frozen=True)
class DrawnTask:
    """`left_out` counts test texts that occur in the corpus's validation split and are excluded."""

    task: TextTask
    left_out: int

    def tensors(self) -> Tensors:
        """The whole task, as the bytes of its JSON."""
        return {"task": text_tensor(asdict(self))}

    @staticmethod
    def of_tensors(tensors: Tensors) -> "DrawnTask":
        """The inverse of `tensors`."""
        content = data_of(tensors["task"])
        task = content["task"]
        parts = (_texts(task[part]) for part in ("train", "validation", "test"))
        return DrawnTask(TextTask(task["name"], tuple(task["classes"]), *parts), content["left_out"])


def _texts(part: dict[str, Any]) -> LabelledTexts:
    seconds = None if part["seconds"] is None else tuple(part["seconds"])
    return LabelledTexts(tuple(part["texts"]), seconds, tuple(part["labels"]))


def drawn_task(source: TaskSource, sizes: TaskSizes, corpus: PackedCorpus, progress: Progress) -> DrawnTask:
    """The task without test texts that occur in the pre-training validation split, cut to `sizes`.

    Raises IsolossError if the task's texts cannot be obtained.
    """
    progress(f"texts of {source.name}", 0, 1)
    task = source.task(default_cache(), progress)
    standing = stand_in_validation(corpus, task.test)
    kept = [row for row, stands in enumerate(standing) if not stands]
    return DrawnTask(sizes.of(replace(task, test=task.test[kept])), len(task.test) - len(kept))


@runtime_checkable
class OfTextTask(Protocol):
    """The settings of a quantity of a task on real text."""

    @property
    def task(self) -> TaskSource:
        """The source of its texts."""
        ...

    @property
    def sizes(self) -> TaskSizes:
        """How many of its texts to use."""
        ...


def draw_task(
    quantity: OfTextTask,
    source: PackedCorpus,
    objective: PretrainingObjective,  # noqa: ARG001
    progress: Progress,
) -> DrawnTask:
    """`Quantity.draw` for a quantity of a task on real text; see `drawn_task`."""
    return drawn_task(quantity.task, quantity.sizes, source, progress)


@dataclass(frozen=True)
class TextProbeQuantity:
    """A task on real text, how many of its texts to use, and the probe's settings; see `ProbeQuantity`."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (PackedCorpus,)
    drawn_as: ClassVar[type] = DrawnTask

    task: TaskSource
    sizes: TaskSizes
    probe: ProbeSettings
    column: str = field(default="accuracy", compare=False)

    draw = draw_task

    def measure(
        self, model: PreTrainedModel, drawn: DrawnTask, subject: Subject[PackedCorpus], progress: Progress
    ) -> Measurement:
        """See `accuracy_of`; texts are truncated to the models' maximum input length."""
        accuracy = text_probe(
            model,
            load_tokenizer(str(subject.folder)),
            drawn.task,
            longest=subject.source.maximum_length + 1,
            settings=self.probe,
            progress=progress,
        )
        return accuracy_of(accuracy, subject, drawn.task.name)

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `Quantity`."""
        return accuracy_names(self.column)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`, and `accuracy_columns`."""
        return accuracy_columns(self.column, *records)


@dataclass(frozen=True)
class TextFineTuningQuantity:
    """A task on real text, how many of its texts to use, and the fine-tuning settings.

    `column` is the accuracy's name in a table; see `ProbeQuantity`.
    """

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (PackedCorpus,)
    drawn_as: ClassVar[type] = DrawnTask

    task: TaskSource
    sizes: TaskSizes
    settings: FineTuningSettings
    column: str = field(default="fine_tuned", compare=False)

    draw = draw_task

    def measure(
        self, model: PreTrainedModel, drawn: DrawnTask, subject: Subject[PackedCorpus], progress: Progress
    ) -> Measurement:
        """See `TextFineTuning.records`; texts are truncated to the models' maximum input length."""
        found = fine_tune_text(
            model,
            load_tokenizer(str(subject.folder)),
            drawn.task,
            self.settings,
            longest=subject.source.maximum_length + 1,
            progress=progress,
        )
        records = found.records(subject.checkpoint, {**subject.settings, "task": drawn.task.name})
        return Measurement(records, found.best.sentence_values() | found.last.sentence_values())

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `Quantity`."""
        return accuracy_names(self.column)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: the test accuracy of the best validation epoch, with errors as for a probe."""
        return accuracy_columns(self.column, *records[:2])


@dataclass(frozen=True)
class MajorityReference:
    """The accuracy of always predicting the most common training class, on the same test texts."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (PackedCorpus,)

    task: TaskSource
    sizes: TaskSizes

    def measure(self, source: PackedCorpus, progress: Progress) -> list[Record]:
        """See `Reference`; the setting `left_out` counts as in `DrawnTask`."""
        drawn = drawn_task(self.task, self.sizes, source, progress)
        return [majority_record(drawn.task, {"task": drawn.task.name, "left_out": drawn.left_out})]

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `ReferenceQuantity`."""
        return (*names_with_errors("majority_accuracy"), "test_texts", "left_out")

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Reference`."""
        majority = records[0]
        return {
            **value_and_error("majority_accuracy", majority),
            "test_texts": majority.n,
            "left_out": majority.settings["left_out"],
        }
