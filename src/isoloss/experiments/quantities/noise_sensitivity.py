"""How much a checkpoint's loss rises under Gaussian noise of the size that its weights had at first."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar

from transformers import PreTrainedModel

from isoloss.checked_tensors import Tensors
from isoloss.curvature.noise_sensitivity import noise_sensitivity
from isoloss.experiments.quantities.exact_distribution_set import ExactDistributionSet
from isoloss.experiments.quantity import Columns, Subject, drawn_of, tensors_of
from isoloss.languages.language import Language
from isoloss.measurements.flatness_records import noise_sensitivity_records
from isoloss.measurements.record import Record
from isoloss.models.transformers import initialised
from isoloss.objectives.batch import Batch
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.progress import Progress


@dataclass(frozen=True)
class NoiseSensitivityQuantity:
    """The rise under each of `noises`, on `sentences` sentences; see `noise_sensitivity`.

    A tensor's noise has σ times the standard deviation that its weights have before pre-training, none where
    they all start alike, as biases and gains do: that of Springer et al. 2025. It is the same for all
    checkpoints of a run, however much its weights grow.
    """

    revision: ClassVar[int] = 1

    noises: tuple[float, ...]
    sentences: int
    seed: int

    def draw(
        self,
        language: Language,
        objective: PretrainingObjective,
        progress: Progress,  # noqa: ARG002
    ) -> "NoiseSensitivitySet":
        """See `Quantity`."""
        drawn = ExactDistributionSet.draw(language, objective, self.sentences, self.seed)
        return NoiseSensitivitySet(drawn, self.noises)

    def restore(
        self,
        tensors: Tensors,
        language: Language,
        objective: PretrainingObjective,
    ) -> "NoiseSensitivitySet":
        """See `Quantity`."""
        drawn = ExactDistributionSet.of(drawn_of(Batch, tensors), language, objective, self.seed)
        return NoiseSensitivitySet(drawn, self.noises)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: `noise_0.3` and its error for σ = 0.3, and so on."""
        columns: Columns = {}
        for noise, record in zip(self.noises, records, strict=True):
            name = noise_column(noise)
            columns |= {name: record.value, f"{name}_error": record.standard_error}
        return columns


@dataclass(frozen=True)
class NoiseSensitivitySet:
    """See `MeasuringSet`."""

    drawn: ExactDistributionSet
    noises: tuple[float, ...]

    def tensors(self) -> Tensors:
        """See `MeasuringSet`."""
        return tensors_of(self.drawn.batch)

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """See `MeasuringSet`."""
        found = noise_sensitivity(
            model,
            [self.drawn.batch],
            subject.objective,
            noises=self.noises,
            scales=deviations_at_first(model),
            seed=self.drawn.seed,
            distribution=self.drawn.distribution,
            progress=progress,
        )
        return noise_sensitivity_records(found, self.drawn.seed, subject.checkpoint, subject.settings)


def deviations_at_first(model: PreTrainedModel) -> dict[str, float]:
    """The standard deviation of each tensor of such a model before pre-training, by name."""
    config = deepcopy(model.config)
    fresh = initialised(type(model), config, config._attn_implementation, seed=0)
    return {
        name: float(weight.detach().double().std(correction=0)) for name, weight in fresh.named_parameters()
    }


def noise_column(noise: float) -> str:
    """What the rise under a noise is called in a table.

    >>> noise_column(0.3)
    'noise_0.3'
    """
    return f"noise_{noise:g}"
