"""Accuracy on a task: of a head on a checkpoint's features, or of the fine-tuned checkpoint (A.4, A.5)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from isoloss.errors import BadInput
from isoloss.measurements.fine_tuning import FineTuningSettings, fine_tune
from isoloss.measurements.labelled_inputs import InputSplits
from isoloss.measurements.linear_probe import Accuracy, LabelledFeatures, ProbeSettings
from isoloss.measurements.quantity import Column, Measurement, Subject, columns_of, with_error
from isoloss.objectives.batch import PretrainingObjective
from isoloss.progress import Progress


@runtime_checkable
class Examples(Protocol):
    """A frozen dataclass: the labelled examples of a task, and how a model reads them.

    `sources`, `drawn_as` and `draw` are those of a `Quantity`.
    """

    sources: ClassVar[tuple[type, ...]]
    drawn_as: ClassVar[type]

    def draw(self, source: Any, objective: PretrainingObjective, progress: Progress) -> Any:
        """The examples."""
        ...

    def task_of(self, drawn: Any) -> str:
        """What records call the task."""
        ...

    def features(self, model: Any, drawn: Any, subject: Subject[Any], progress: Progress) -> LabelledFeatures:
        """The features of the training and test examples."""
        ...

    def inputs(self, model: PreTrainedModel, drawn: Any, subject: Subject[Any]) -> InputSplits:
        """What the model is fine-tuned, chosen and tested on. Raises BadInput if it cannot be."""
        ...


def gaussian_projection(
    features: Float[Tensor, "n D"], seed: int, dimension: int = 512
) -> Float[Tensor, "n P"]:
    """Features times a fixed matrix of independent N(0, 1 / P), P = `dimension`: equal capacity of probes.

    The paper's option for comparing models of different widths (A.4); squared lengths are kept on average.
    A seed gives one matrix for each D: train and test must share it.

    >>> gaussian_projection(torch.ones(2, 1000), seed=0, dimension=4).shape
    torch.Size([2, 4])
    """
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(features.shape[1], dimension, generator=generator) / dimension**0.5
    projected: Tensor = features @ matrix.to(features)
    return projected


@dataclass(frozen=True)
class AsTheyAre:
    """The paper's probe: neither centred nor scaled."""

    def adapted(self, train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
        """The features [n, D] and [n_test, D] as the probe reads them; statistics are fitted on `train`."""
        return train, test


@dataclass(frozen=True)
class Centred:
    """Every feature has mean 0 on the training sentences, without what all sentences share."""

    def adapted(self, train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
        """See `AsTheyAre`.

        >>> Centred().adapted(torch.tensor([[0.0, 3.0], [2.0, 3.0]]), torch.tensor([[5.0, 3.0]]))[1]
        tensor([[4., 0.]])
        """
        mean = train.mean(0)
        return train - mean, test - mean


@dataclass(frozen=True)
class Standardised:
    """Every feature has mean 0 and deviation 1 on the training sentences; a constant one becomes 0."""

    def adapted(self, train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
        """See `AsTheyAre`.

        >>> seen, unseen = torch.tensor([[0.0, 3.0], [2.0, 3.0]]), torch.tensor([[5.0, 3.0]])
        >>> train, test = Standardised().adapted(seen, unseen)
        >>> train.tolist(), test.tolist()
        ([[-1.0, 0.0], [1.0, 0.0]], [[4.0, 0.0]])
        """
        mean, deviation = train.mean(0), train.std(0, correction=0)
        # A feature that is constant up to rounding would only add noise.
        constant = deviation <= 1e-6 * train.abs().amax(0)
        scale = torch.where(constant, 0.0, 1 / torch.where(constant, 1.0, deviation))
        return (train - mean) * scale, (test - mean) * scale


@dataclass(frozen=True)
class Projected:
    """Features wider than `dimension` are reduced to it by one `gaussian_projection`, the paper's option.

    Narrower ones are left as they are, as in the paper: to compare widths at equal capacity, choose a
    dimension no larger than that of the narrowest model.
    """

    dimension: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise BadInput(f"features cannot be projected to {self.dimension} dimensions; give at least 1")

    def adapted(self, train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
        """See `AsTheyAre`."""
        if train.shape[1] <= self.dimension:
            return train, test
        projected = (gaussian_projection(features, self.seed, self.dimension) for features in (train, test))
        return next(projected), next(projected)


FeatureAdaptation = AsTheyAre | Centred | Standardised | Projected


@dataclass(frozen=True)
class LinearProbe:
    """A linear head on features that do not change; `features` says how the head reads them."""

    settings: ProbeSettings
    features: FeatureAdaptation = AsTheyAre()

    def accuracy(self, found: LabelledFeatures, progress: Progress) -> Accuracy:
        """That of heads on the features that were found; adapted features are part of its name."""
        train, test = self.features.adapted(found.train, found.test)
        accuracy = replace(found, train=train, test=test).probed(self.settings, progress)
        if isinstance(self.features, AsTheyAre):
            return accuracy
        return replace(accuracy, quantity=f"linear_probe_{type(self.features).__name__.lower()}")


@dataclass(frozen=True)
class FineTuning:
    """A linear head trained together with the whole model."""

    settings: FineTuningSettings


Head = LinearProbe | FineTuning

STORED_NAMES: Mapping[tuple[str, str], str] = {
    ("TaskSentences", "LinearProbe"): "ProbeQuantity",
    ("TaskSentences", "FineTuning"): "FineTuningQuantity",
    ("TaskTexts", "LinearProbe"): "TextProbeQuantity",
    ("TaskTexts", "FineTuning"): "TextFineTuningQuantity",
    ("StudentTaskTexts", "LinearProbe"): "GeneratedWordsProbe",
}
"""What plans and stored measurements call an accuracy, by its examples and its head."""


def accuracy_columns(name: str, first: int = 0) -> tuple[Column, ...]:
    """The mean over seeds, its error over test examples, its deviation over seeds, and the examples' number.

    Of the two records from place `first` on.
    """
    deviation, examples = Column(f"{name}_deviation", first + 1), Column(f"{name}_sentences", first, "n")
    return (*with_error(name, first), deviation, examples)


@dataclass(frozen=True)
class AccuracyQuantity:
    """The test accuracy of `head` on `examples`; `column`, its name in a table, is no part of what it is."""

    revision: ClassVar[int] = 1
    column_names, columns = columns_of(lambda it: accuracy_columns(it.column))

    examples: Examples
    head: Head
    column: str = field(default="accuracy", compare=False)

    @property
    def sources(self) -> tuple[type, ...]:
        return self.examples.sources

    @property
    def drawn_as(self) -> type:
        return self.examples.drawn_as

    @property
    def stored_as(self) -> dict[str, Any]:
        """The settings under which an accuracy is stored, which are older than this class."""
        examples: Any = self.examples  # a dataclass
        head = self.head
        if isinstance(head, LinearProbe) and not isinstance(head.features, AsTheyAre):
            plain = AccuracyQuantity(examples, LinearProbe(head.settings))
            return {"is": "AdaptedProbeQuantity", "revision": 1, "of": plain, "features": head.features}
        if shift := getattr(examples, "shift", None):
            plain = AccuracyQuantity(replace(examples, shift=None), head)
            return {"is": "ShiftedProbeQuantity", "revision": 1, "of": plain, "shift": shift}
        setting = "probe" if isinstance(head, LinearProbe) else "settings"
        name = STORED_NAMES.get((type(examples).__name__, type(head).__name__))
        if name is None:
            return {"is": "AccuracyQuantity", "revision": 1, "examples": examples, setting: head.settings}
        settings = {
            each.name: getattr(examples, each.name) for each in fields(examples) if each.name != "shift"
        }
        return {"is": name, "revision": 1, **settings, setting: head.settings}

    def draw(self, source: Any, objective: PretrainingObjective, progress: Progress) -> Any:
        return self.examples.draw(source, objective, progress)

    def measure(self, model: Any, drawn: Any, subject: Subject[Any], progress: Progress) -> Measurement:
        """Each accuracy, its deviation over seeds, and its values per test example.

        Of fine-tuning, the best epochs', then the last one's.
        """
        if isinstance(self.head, LinearProbe):
            features = self.examples.features(model, drawn, subject, progress)
            accuracies = [self.head.accuracy(features, progress)]
        else:
            inputs = self.examples.inputs(model, drawn, subject)
            accuracies = [*fine_tune(model, inputs, self.head.settings, progress)]
        settings = {**subject.settings, "task": self.examples.task_of(drawn)}
        records = [each for one in accuracies for each in one.records(subject.checkpoint, settings)]
        values = {name: each for one in accuracies for name, each in one.sentence_values().items()}
        return Measurement(records, values)
