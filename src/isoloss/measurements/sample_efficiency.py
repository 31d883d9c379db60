"""Accuracy of a linear probe against the number of labelled training sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from isoloss.errors import BadInput
from isoloss.languages.language import Language
from isoloss.languages.task import TaskSplits, task_splits
from isoloss.measurements.accuracy import AsTheyAre, FeatureAdaptation
from isoloss.measurements.linear_probe import ProbeSettings, linear_probe
from isoloss.measurements.quantity import Columns, Measurement, Subject, names_with_errors, value_and_error
from isoloss.measurements.task_sentences import named_task, sentence_features
from isoloss.objectives.batch import PretrainingObjective
from isoloss.progress import Progress
from isoloss.results.estimate import Estimate, mean_over_sentences
from isoloss.results.record import Record, Setting

EXAMPLES = (100, 300, 1000, 4000)


@dataclass(frozen=True)
class SampleEfficiencyQuantity:
    """A probe for each number of `examples` and each of `draws` disjoint sets of them, with one test set.

    Within a draw, smaller sets are subsets of larger ones. `column` is the prefix of the accuracies' names in
    a table, before the number of examples: `accuracy_100` for "accuracy".
    """

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = TaskSplits

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
        source: Language,
        objective: PretrainingObjective,  # noqa: ARG002
        progress: Progress,
    ) -> TaskSplits:
        """See `Quantity`."""
        progress(f"examples of {self.task}", 0, 1)
        task = named_task(source, self.task)
        return task_splits(task, self.draws * max(self.examples), 0, self.test, self.seed)

    def measure(
        self, model: PreTrainedModel, drawn: TaskSplits, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        """Two records per number of examples: the accuracy, and its deviation over draws."""
        train = sentence_features(model, drawn.train.sentences)
        test = sentence_features(model, drawn.test.sentences)
        records: list[Record] = []
        values: dict[str, Tensor] = {}
        for number in self.examples:
            right = torch.stack(
                [self._right(train, test, drawn, draw, number, progress) for draw in range(self.draws)]
            )
            name = f"accuracy_of_{number}_examples"
            values[name] = right.mean(0)
            deviation = float(right.mean(1).std())
            error = deviation / (2 * (self.draws - 1)) ** 0.5
            told: dict[str, Setting] = {"task": self.task, "examples": number}
            of_draws = Estimate(deviation, error, self.draws)
            records += [
                subject.record(name, mean_over_sentences(values[name]), "fraction", None, **told),
                subject.record(
                    f"deviation_over_draws_of_{number}_examples", of_draws, "fraction", None, **told
                ),
            ]
        return Measurement(records, values)

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `Quantity`."""
        numbers = (f"{self.column}_{number}" for number in self.examples)
        return tuple(name for each in numbers for name in (*names_with_errors(each), f"{each}_deviation"))

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: per number of examples, mean and deviation over draws, and error over sentences."""
        columns: Columns = {}
        for accuracy, deviation in zip(records[::2], records[1::2], strict=True):
            name = f"{self.column}_{accuracy.settings['examples']}"
            columns |= value_and_error(name, accuracy) | {f"{name}_deviation": deviation.value}
        return columns

    def _right(
        self,
        train: Float[Tensor, "n D"],
        test: Float[Tensor, "n_test D"],
        drawn: TaskSplits,
        draw: int,
        number: int,
        progress: Progress,
    ) -> Float[Tensor, " n_test"]:
        """The share of the seeds' heads that are right about each test sentence."""
        first = draw * max(self.examples)
        rows = slice(first, first + number)
        own, seen = self.features.adapted(train[rows], test)
        labels, truth = drawn.train.labels[rows], drawn.test.labels
        classes = drawn.train.posterior.shape[1]
        return linear_probe(own, labels, seen, truth, classes, self.probe, progress).correct
