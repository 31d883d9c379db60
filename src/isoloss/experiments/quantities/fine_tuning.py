"""Accuracy of a checkpoint that is fine-tuned for a task (A.5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from transformers import PreTrainedModel

from isoloss.checked_tensors import Tensors
from isoloss.experiments.quantities.probe import named_task
from isoloss.experiments.quantity import Columns, Subject, drawn_of, tensors_of
from isoloss.languages.language import Language
from isoloss.languages.task import TaskSplits, task_splits
from isoloss.measurements.fine_tuning import fine_tune
from isoloss.measurements.fine_tuning_run import FineTuningSettings
from isoloss.measurements.record import Record
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.pretraining.checkpoint import RAW_FOLDER
from isoloss.progress import Progress

FOLDER = "fine-tuned"
"""Beside a run's checkpoints: the fine-tuned models, by step and by what they were measured on."""


@dataclass(frozen=True)
class FineTuningQuantity:
    """A task of the language by its name, the sizes of its splits, and how a checkpoint is fine-tuned."""

    revision: ClassVar[int] = 1

    task: str
    train: int
    validation: int
    test: int
    settings: FineTuningSettings
    seed: int

    def draw(
        self,
        language: Language,
        objective: PretrainingObjective,  # noqa: ARG002
        progress: Progress,
    ) -> "FineTuningSet":
        """See `Quantity`."""
        progress(f"examples of {self.task}", 0, 1)
        task = named_task(language, self.task)
        splits = task_splits(task, self.train, self.validation, self.test, self.seed)
        return FineTuningSet(self.task, tuple(task.classes), splits, self.settings)

    def restore(
        self,
        tensors: Tensors,
        language: Language,
        objective: PretrainingObjective,  # noqa: ARG002
    ) -> "FineTuningSet":
        """See `Quantity`."""
        classes = tuple(named_task(language, self.task).classes)
        return FineTuningSet(self.task, classes, drawn_of(TaskSplits, tensors), self.settings)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: the test accuracy of the epoch best in validation, its errors as a probe's."""
        found = {record.quantity: record for record in records}
        accuracy = found["fine_tuning_best_accuracy"]
        return {
            "fine_tuned": accuracy.value,
            "fine_tuned_error": accuracy.standard_error,
            "fine_tuned_deviation": found["fine_tuning_best_deviation_over_seeds"].value,
            "fine_tuned_sentences": accuracy.n,
        }


@dataclass(frozen=True)
class FineTuningSet:
    """See `MeasuringSet`."""

    task: str
    classes: tuple[str, ...]
    splits: TaskSplits
    settings: FineTuningSettings

    def tensors(self) -> Tensors:
        """See `MeasuringSet`."""
        return tensors_of(self.splits)

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """See `MeasuringSet`: fine-tuned from the checkpoint's folder, on the model's device."""
        found = fine_tune(
            subject.folder,
            self.splits,
            self.classes,
            kept_models(subject),
            self.settings,
            device=str(model.device),
            progress=progress,
        )
        for accuracy in (found.best, found.last):
            subject.sentence_values.update(accuracy.sentence_values())
        return found.records(subject.checkpoint, {**subject.settings, "task": self.task})


def kept_models(subject: Subject) -> Path:
    """Where the models fine-tuned from a checkpoint are kept: in its run's folder, raw weights' apart."""
    measured_on = str(subject.settings["measured_on"])
    if subject.folder.name == RAW_FOLDER:
        checkpoint, measured_on = subject.folder.parent, f"{measured_on}-{RAW_FOLDER}"
    else:
        checkpoint = subject.folder
    return checkpoint.parent.parent / FOLDER / checkpoint.name / measured_on
