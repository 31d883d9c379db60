"""How much a checkpoint's loss rises under Gaussian noise on its weights."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import ClassVar

from torch import nn
from transformers import PreTrainedModel

from isoloss.curvature.loss_rise import NOISES, noise_sensitivity
from isoloss.measurements.fixed_sentences import DRAWN_WITH_LABELS, FixedSentences, labels_of
from isoloss.measurements.quantity import AnySource, Measurement, Subject, columns_named_by
from isoloss.models.transformers import initialised
from isoloss.progress import Progress


@dataclass(frozen=True)
class NoiseSensitivityQuantity:
    """The rise under each of `noises`, on `sentences` sentences; see `noise_sensitivity`.

    As in Springer et al. 2025, the noise of a tensor has σ times the standard deviation of its weights before
    pre-training, which is zero for tensors initialised to a constant, such as biases and gains. It is the
    same for all checkpoints of a run, however much its weights grow.
    """

    revision: ClassVar[int] = 1
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_named_by(lambda it: map(noise_column, it.noises))

    noises: tuple[float, ...]
    sentences: int
    seed: int

    def measure(
        self, model: PreTrainedModel, drawn: FixedSentences, subject: Subject[AnySource], progress: Progress
    ) -> Measurement:
        return noise_measurement(
            model, drawn, subject, self.noises, deviations_at_first(model), seed=self.seed, progress=progress
        )


@dataclass(frozen=True)
class OwnNoiseSensitivityQuantity:
    """The rise under noise of σ times the weights' current size, for models of unknown initialisation."""

    revision: ClassVar[int] = 1
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_named_by(lambda it: (f"own_{noise_column(noise)}" for noise in it.noises))

    sentences: int
    seed: int
    noises: tuple[float, ...] = NOISES

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[AnySource], progress: Progress
    ) -> Measurement:
        return noise_measurement(model, drawn, subject, self.noises, None, seed=self.seed, progress=progress)


def noise_measurement(
    model: nn.Module,
    drawn: FixedSentences,
    subject: Subject[AnySource],
    noises: tuple[float, ...],
    scales: Mapping[str, float] | None,
    *,
    seed: int,
    progress: Progress,
) -> Measurement:
    """A `noise_sensitivity` record per noise, which is in the settings; `n` counts draws."""
    found = noise_sensitivity(
        model,
        drawn.batches,
        subject.objective,
        noises=noises,
        scales=scales,
        seed=seed,
        distribution=labels_of(subject),
        progress=progress,
    )
    shared = {"sentences": int(found.sentences.sum()), **found.parameters.settings}
    return Measurement(
        [
            subject.record("noise_sensitivity", estimate, "nats", seed, noise=noise, **shared)
            for noise, estimate in found.estimates.items()
        ]
    )


def deviations_at_first(model: PreTrainedModel) -> dict[str, float]:
    """The standard deviation of each tensor of a model like this before pre-training, by name."""
    config = deepcopy(model.config)
    fresh = initialised(type(model), config, config._attn_implementation, seed=0)
    return {
        name: float(weight.detach().double().std(correction=0)) for name, weight in fresh.named_parameters()
    }


def noise_column(noise: float) -> str:
    """The column name of the rise under a noise.

    >>> noise_column(0.3)
    'noise_0.3'
    """
    return f"noise_{noise:g}"


on_sentences = OwnNoiseSensitivityQuantity
