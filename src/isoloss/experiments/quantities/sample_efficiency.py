"""Accuracy of a linear probe over the number of labelled sentences that it learns from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from isoloss.checked_tensors import Tensors
from isoloss.errors import BadInput
from isoloss.estimate import mean_over_sentences
from isoloss.experiments.quantities.probe import named_task
from isoloss.experiments.quantity import Columns, Subject, drawn_of, tensors_of
from isoloss.languages.language import Language
from isoloss.languages.task import TaskSplits, task_splits
from isoloss.measurements.feature_adaptation import AsTheyAre, FeatureAdaptation
from isoloss.measurements.linear_probe import ProbeSettings, linear_probe
from isoloss.measurements.record import Record
from isoloss.measurements.sentence_features import sentence_features
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.progress import Progress

EXAMPLES = (100, 300, 1000, 4000)


@dataclass(frozen=True)
class SampleEfficiencyQuantity:
    """A probe for each number of `examples` and each of `draws` disjoint sets of them, one test for all.

    A draw's smaller sets are parts of its larger ones. `column` is how the accuracies' names begin in a
    table, before the number of examples: `accuracy_100` for "accuracy".
    """

    revision: ClassVar[int] = 1

    task: str
    test: int
    probe: ProbeSettings
    seed: int
    examples: tuple[int, ...] = EXAMPLES
    draws: int = 3
    features: FeatureAdaptation = AsTheyAre()  # noqa: RUF009  (frozen)
    column: str = field(default="accuracy", compare=False)

    def __post_init__(self) -> None:
        if self.draws < 2 or not self.examples or min(self.examples) < 1:
            raise BadInput(
                f"{self.draws} draws of {self.examples} examples have no error bar over draws; "
                "give at least 2 draws, and numbers of examples from 1"
            )

    @property
    def feature_sentences(self) -> int:
        """See `ReadsFeatures`."""
        return self.draws * max(self.examples) + self.test

    def draw(
        self,
        language: Language,
        objective: PretrainingObjective,  # noqa: ARG002
        progress: Progress,
    ) -> "SampleEfficiencySet":
        """See `Quantity`."""
        progress(f"examples of {self.task}", 0, 1)
        task = named_task(language, self.task)
        splits = task_splits(task, self.draws * max(self.examples), 0, self.test, self.seed)
        return self._set(language, splits)

    def restore(
        self,
        tensors: Tensors,
        language: Language,
        objective: PretrainingObjective,  # noqa: ARG002
    ) -> "SampleEfficiencySet":
        """See `Quantity`."""
        return self._set(language, drawn_of(TaskSplits, tensors))

    def _set(self, language: Language, splits: TaskSplits) -> "SampleEfficiencySet":
        classes = len(named_task(language, self.task).classes)
        return SampleEfficiencySet(
            self.task, classes, splits, self.probe, self.examples, self.draws, self.features
        )

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: by examples the mean over draws, its error over sentences, deviation over draws."""
        columns: Columns = {}
        for accuracy, deviation in zip(records[::2], records[1::2], strict=True):
            name = f"{self.column}_{accuracy.settings['examples']}"
            columns[name] = accuracy.value
            columns[f"{name}_error"] = accuracy.standard_error
            columns[f"{name}_deviation"] = deviation.value
        return columns


@dataclass(frozen=True)
class SampleEfficiencySet:
    """See `MeasuringSet`."""

    task: str
    classes: int
    splits: TaskSplits
    probe: ProbeSettings
    examples: tuple[int, ...]
    draws: int
    features: FeatureAdaptation

    def tensors(self) -> Tensors:
        """See `MeasuringSet`."""
        return tensors_of(self.splits)

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """See `MeasuringSet`; two records a number of examples."""
        train = sentence_features(model, self.splits.train.sentences)
        test = sentence_features(model, self.splits.test.sentences)
        records = []
        for number in self.examples:
            right = torch.stack(
                [self._right(train, test, draw, number, progress) for draw in range(self.draws)]
            )
            accuracy, by_draw = mean_over_sentences(right.mean(0)), right.mean(1)
            deviation = float(by_draw.std())
            settings = {**subject.settings, "task": self.task, "examples": number}
            name = f"accuracy_of_{number}_examples"
            subject.sentence_values[name] = right.mean(0)
            records += [
                Record(
                    *(name, accuracy.value, "fraction", accuracy.standard_error, accuracy.n),
                    checkpoint=subject.checkpoint,
                    settings=settings,
                ),
                Record(
                    *(f"deviation_over_draws_of_{number}_examples", deviation, "fraction"),
                    deviation / (2 * (self.draws - 1)) ** 0.5,
                    self.draws,
                    checkpoint=subject.checkpoint,
                    settings=settings,
                ),
            ]
        return records

    def _right(
        self,
        train: Float[Tensor, "n D"],
        test: Float[Tensor, "n_test D"],
        draw: int,
        number: int,
        progress: Progress,
    ) -> Float[Tensor, " n_test"]:
        """The share of the seeds' heads that are right about each test sentence."""
        first = draw * max(self.examples)
        rows = slice(first, first + number)
        own, seen = self.features.adapted(train[rows], test)
        labels = self.splits.train.labels[rows]
        truth = self.splits.test.labels
        return linear_probe(own, labels, seen, truth, self.classes, self.probe, progress).correct
