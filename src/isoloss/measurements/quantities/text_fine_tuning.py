"""Accuracy of a checkpoint that is fine-tuned for a task on real text (A.5)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from transformers import PreTrainedModel

from isoloss.corpora.labelled_texts import TaskSource
from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.corpora.task_splits import TaskSizes
from isoloss.measurements.fine_tuning_run import FineTuningSettings
from isoloss.measurements.quantities.probe import accuracy_columns
from isoloss.measurements.quantities.text_probe import DrawnTask, drawn_task
from isoloss.measurements.quantity import Columns, Measurement, Subject
from isoloss.measurements.record import Record
from isoloss.measurements.text_fine_tuning import fine_tune_text
from isoloss.models.loading import load_tokenizer
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.progress import Progress


@dataclass(frozen=True)
class TextFineTuningQuantity:
    """A task on real text, how many of its texts, and how a checkpoint is fine-tuned.

    `column` is what the accuracy is called in a table; see `ProbeQuantity`.
    """

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (PackedCorpus,)
    drawn_as: ClassVar[type] = DrawnTask

    task: TaskSource
    sizes: TaskSizes
    settings: FineTuningSettings
    column: str = field(default="fine_tuned", compare=False)

    def draw(
        self,
        source: PackedCorpus,
        objective: PretrainingObjective,  # noqa: ARG002
        progress: Progress,
    ) -> DrawnTask:
        """See `Quantity`."""
        return drawn_task(self.task, self.sizes, source, progress)

    def measure(
        self, model: PreTrainedModel, drawn: DrawnTask, subject: Subject[PackedCorpus], progress: Progress
    ) -> Measurement:
        """See `TextFineTuning.records`; texts are cut after what the models read."""
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

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: the test accuracy of the epoch best in validation, its errors as a probe's."""
        return accuracy_columns(self.column, *records[:2])
