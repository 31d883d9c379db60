"""Accuracy of a checkpoint that is fine-tuned for a task on real text (A.5)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from transformers import PreTrainedModel

from isoloss.checked_tensors import Tensors
from isoloss.corpora.labelled_texts import TaskSource
from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.corpora.task_splits import TaskSizes
from isoloss.experiments.quantities.text_probe import DrawnTask, drawn_task, restored_task
from isoloss.experiments.quantity import Columns, Subject
from isoloss.measurements.fine_tuning_run import FineTuningSettings
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

    task: TaskSource
    sizes: TaskSizes
    settings: FineTuningSettings
    column: str = field(default="fine_tuned", compare=False)

    def draw_from(
        self,
        corpus: PackedCorpus,
        objective: PretrainingObjective,  # noqa: ARG002
        progress: Progress,
    ) -> "TextFineTuningSet":
        """See `CorpusQuantity`."""
        drawn = drawn_task(self.task, self.sizes, corpus, progress)
        return TextFineTuningSet(drawn, self.settings, corpus.maximum_length + 1)

    def restore(
        self,
        tensors: Tensors,
        language: PackedCorpus,
        objective: PretrainingObjective,  # noqa: ARG002
    ) -> "TextFineTuningSet":
        """See `CorpusQuantity`."""
        return TextFineTuningSet(restored_task(tensors), self.settings, language.maximum_length + 1)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: the test accuracy of the epoch best in validation, its errors as a probe's."""
        found = {record.quantity: record for record in records}
        accuracy = found["fine_tuning_best_accuracy"]
        return {
            self.column: accuracy.value,
            f"{self.column}_error": accuracy.standard_error,
            f"{self.column}_deviation": found["fine_tuning_best_deviation_over_seeds"].value,
            f"{self.column}_sentences": accuracy.n,
        }


@dataclass(frozen=True)
class TextFineTuningSet:
    """See `MeasuringSet`; texts are cut after `longest` tokens, what the models read."""

    drawn: DrawnTask
    settings: FineTuningSettings
    longest: int

    def tensors(self) -> Tensors:
        """See `MeasuringSet`."""
        return self.drawn.tensors()

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """See `MeasuringSet`."""
        task = self.drawn.task
        tokenizer = load_tokenizer(str(subject.folder))
        found = fine_tune_text(model, tokenizer, task, self.settings, longest=self.longest, progress=progress)
        for accuracy in (found.best, found.last):
            subject.sentence_values.update(accuracy.sentence_values())
        return found.records(subject.checkpoint, {**subject.settings, "task": task.name})
