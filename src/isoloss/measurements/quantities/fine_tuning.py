"""Accuracy of a checkpoint that is fine-tuned for a task (A.5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from transformers import PreTrainedModel

from isoloss.languages.language import Language
from isoloss.languages.task import TaskSplits, task_splits
from isoloss.measurements.fine_tuning import fine_tune
from isoloss.measurements.fine_tuning_run import FineTuningSettings
from isoloss.measurements.quantities.probe import accuracy_columns, named_task
from isoloss.measurements.quantity import Columns, Measurement, Subject
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
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = TaskSplits

    task: str
    train: int
    validation: int
    test: int
    settings: FineTuningSettings
    seed: int

    def draw(
        self,
        source: Language,
        objective: PretrainingObjective,  # noqa: ARG002
        progress: Progress,
    ) -> TaskSplits:
        """See `Quantity`."""
        progress(f"examples of {self.task}", 0, 1)
        task = named_task(source, self.task)
        return task_splits(task, self.train, self.validation, self.test, self.seed)

    def measure(
        self, model: PreTrainedModel, drawn: TaskSplits, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        """See `FineTuning.records`: fine-tuned from the checkpoint's folder, on the model's device."""
        found = fine_tune(
            subject.folder,
            drawn,
            tuple(named_task(subject.source, self.task).classes),
            kept_models(subject),
            self.settings,
            device=str(model.device),
            progress=progress,
        )
        records = found.records(subject.checkpoint, {**subject.settings, "task": self.task})
        return Measurement(records, found.best.sentence_values() | found.last.sentence_values())

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: the test accuracy of the epoch best in validation, its errors as a probe's."""
        return accuracy_columns("fine_tuned", *records[:2])


def kept_models(subject: Subject[Any]) -> Path:
    """Where the models fine-tuned from a checkpoint are kept: in its run's folder, raw weights' apart."""
    measured_on = str(subject.settings["measured_on"])
    if subject.folder.name == RAW_FOLDER:
        checkpoint, measured_on = subject.folder.parent, f"{measured_on}-{RAW_FOLDER}"
    else:
        checkpoint = subject.folder
    return checkpoint.parent.parent / FOLDER / checkpoint.name / measured_on
