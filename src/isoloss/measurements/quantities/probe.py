"""Accuracy of a linear probe on a checkpoint's contextual vectors, and its references."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import nn
from transformers import PreTrainedModel

from isoloss.errors import BadInput
from isoloss.languages.constituent_task import constituent_task
from isoloss.languages.language import Language
from isoloss.languages.pcfg import PCFG
from isoloss.languages.task import Task, TaskSplits, task_splits
from isoloss.measurements.linear_probe import Accuracy, ProbeSettings, linear_probe, reference_records
from isoloss.measurements.quantity import Columns, Measurement, Subject, names_with_errors, value_and_error
from isoloss.measurements.sentence_features import sentence_features
from isoloss.objectives.batch import PretrainingObjective
from isoloss.progress import Progress
from isoloss.results.record import Record


@runtime_checkable
class ReadsFeatures(Protocol):
    """A quantity for which models' features of whole sentences are held in memory."""

    @property
    def feature_sentences(self) -> int:
        """For how many sentences at once."""
        ...


@dataclass(frozen=True)
class ProbeQuantity:
    """A task of the language by name, the sizes of its splits, and the probe's settings.

    `column` is the accuracy's name in a table; an experiment on several tasks gives each its own. It does not
    affect the measurement: experiments that use different names for the same accuracy share it.
    """

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = TaskSplits

    task: str
    train: int
    validation: int
    test: int
    probe: ProbeSettings
    seed: int
    column: str = field(default="accuracy", compare=False)

    @property
    def feature_sentences(self) -> int:
        """See `ReadsFeatures`."""
        return self.train + self.test

    def splits(self, language: Language) -> TaskSplits:
        """The task's examples; a pure function of the settings and the language."""
        task = named_task(language, self.task)
        return task_splits(task, self.train, self.validation, self.test, self.seed)

    def draw(
        self,
        source: Language,
        objective: PretrainingObjective,  # noqa: ARG002
        progress: Progress,
    ) -> TaskSplits:
        """See `Quantity`."""
        progress(f"examples of {self.task}", 0, 1)
        return self.splits(source)

    def measure(
        self, model: PreTrainedModel, drawn: TaskSplits, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        """See `accuracy_of`."""
        return accuracy_of(self.accuracy(model, drawn, progress), subject, self.task)

    def accuracy(self, model: nn.Module, drawn: TaskSplits, progress: Progress) -> Accuracy:
        """The probe's accuracy on anything that has `sentence_features`."""
        train, test = drawn.train, drawn.test
        return linear_probe(
            sentence_features(model, train.sentences),
            train.labels,
            sentence_features(model, test.sentences),
            test.labels,
            train.posterior.shape[1],
            self.probe,
            progress,
        )

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `Quantity`."""
        return accuracy_names(self.column)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`, and `accuracy_columns`."""
        return accuracy_columns(self.column, *records)


def accuracy_of(accuracy: Accuracy, subject: Subject[Any], task: str) -> Measurement:
    """An accuracy on a task, with its values per test example."""
    records = accuracy.records(subject.checkpoint, {**subject.settings, "task": task})
    return Measurement(records, accuracy.sentence_values())


def accuracy_columns(column: str, accuracy: Record, deviation: Record) -> Columns:
    """The mean over seeds, its error over test examples, the deviation over seeds, and how many examples."""
    return {
        **value_and_error(column, accuracy),
        f"{column}_deviation": deviation.value,
        f"{column}_sentences": accuracy.n,
    }


def accuracy_names(column: str) -> tuple[str, ...]:
    """The names of `accuracy_columns`.

    >>> accuracy_names("accuracy")
    ('accuracy', 'accuracy_error', 'accuracy_deviation', 'accuracy_sentences')
    """
    return (*names_with_errors(column), f"{column}_deviation", f"{column}_sentences")


@dataclass(frozen=True)
class TaskReference:
    """Chance and ceiling for a probe's task, on its own test sentences; see `reference_records`."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)

    of: ProbeQuantity

    def measure(self, source: Language, progress: Progress) -> list[Record]:
        """See `ReferenceQuantity`."""
        progress(f"examples of {self.of.task}", 0, 1)
        return reference_records(self.of.splits(source).test, {"task": self.of.task})

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `ReferenceQuantity`."""
        return ("chance_accuracy", "posterior_accuracy", "latent_agreement")

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `ReferenceQuantity`: `chance_accuracy`, `posterior_accuracy`, `latent_agreement`."""
        return {record.quantity: record.value for record in records}


def named_task(language: Language, name: str) -> Task:
    """The language's task of that name. Raises BadInput when it has none.

    A grammar's tasks include rare ones, and those of the authors' labels; see `constituent_task`.
    """
    if isinstance(language, PCFG):
        return constituent_task(language, name)
    tasks = {task.name: task for task in language.tasks()}
    if name not in tasks:
        raise BadInput(f"the language has no task {name!r}; choose {', '.join(tasks) or 'another language'}")
    return tasks[name]
