"""How much a checkpoint's loss rises when its weights are moved: along the gradient (SAM), or by noise."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import nn
from transformers import PreTrainedModel

from isoloss.curvature.loss_rise import NOISES, RADII, ascent_sharpness, noise_sensitivity
from isoloss.measurements.fixed_sentences import DRAWN_WITH_LABELS, FixedSentences, given
from isoloss.measurements.quantity import Measurement, Subject, columns_named_by, rounding_of_steps
from isoloss.models.transformers import initialised
from isoloss.progress import Progress
from isoloss.results.record import Setting
from isoloss.results.store import ONLY_WHEN_CHANGED


@dataclass(frozen=True)
class AscentSharpnessQuantity:
    """The rise of the loss at each of `radii`, on `sentences` sentences; see `ascent_sharpness`."""

    revision: ClassVar[int] = 1
    smaller_is: ClassVar[str] = "flatter"
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_named_by(lambda it: map(sam_column, it.radii))

    sentences: int
    seed: int
    radii: tuple[float, ...] = RADII

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """An `ascent_sharpness` record per radius, with the gradient norm of the same set in its settings."""
        found = ascent_sharpness(model, **given(drawn, subject, progress), radii=self.radii)
        shared: dict[str, Setting] = {
            "gradient_norm": found.gradient_norm,
            **found.parameters.settings,
            **rounding_of_steps(model),
        }
        records = [
            subject.record("ascent_sharpness", rise, "nats", self.seed, radius=radius, **shared)
            for radius, rise in found.estimates.items()
        ]
        return Measurement(records)


def sam_column(radius: float) -> str:
    """The column name of the rise at a radius.

    >>> sam_column(0.05)
    'sam_0.05'
    """
    return f"sam_{radius:g}"


ascent_sharpness_on_sentences = AscentSharpnessQuantity


@dataclass(frozen=True)
class NoiseSensitivityQuantity:
    """The rise under each of `noises`, on `sentences` sentences; see `noise_sensitivity`.

    As in Springer et al. 2025, the noise of a tensor has σ times the standard deviation of its weights before
    pre-training, which is zero for tensors initialised to a constant, such as biases and gains. It is the
    same for all checkpoints of a run, however much its weights grow. For models of unknown initialisation it
    has σ times their `own` current size.
    """

    revision: ClassVar[int] = 1
    smaller_is: ClassVar[str] = "flatter"
    error_over: ClassVar[str] = "draws of noise"
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_named_by(
        lambda it: (f"{'own_' * it.own}{noise_column(noise)}" for noise in it.noises)
    )

    noises: tuple[float, ...]
    sentences: int
    seed: int
    own: bool = field(default=False, metadata=ONLY_WHEN_CHANGED)

    def measure(
        self, model: PreTrainedModel, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """A `noise_sensitivity` record per noise, which is in the settings; `n` counts draws."""
        found = noise_sensitivity(
            model,
            **given(drawn, subject, progress),
            noises=self.noises,
            scales=None if self.own else deviations_at_first(model),
            seed=self.seed,
        )
        shared: dict[str, Setting] = {
            "sentences": int(found.sentences.sum()),
            **found.parameters.settings,
            **rounding_of_steps(model),
        }
        records = [
            subject.record("noise_sensitivity", estimate, "nats", self.seed, noise=noise, **shared)
            for noise, estimate in found.estimates.items()
        ]
        return Measurement(records)


def deviations_at_first(model: PreTrainedModel) -> dict[str, float]:
    """The standard deviation of each tensor of a model like this before pre-training, by name."""
    config = deepcopy(model.config)
    fresh = initialised(type(model), config, config._attn_implementation, seed=0)
    weights = fresh.named_parameters()
    return {name: float(weight.detach().double().std(correction=0)) for name, weight in weights}


def noise_column(noise: float) -> str:
    """The column name of the rise under a noise.

    >>> noise_column(0.3)
    'noise_0.3'
    """
    return f"noise_{noise:g}"


def noise_sensitivity_on_sentences(sentences: int, seed: int) -> NoiseSensitivityQuantity:
    """Of any model, whose initialisation need not be known."""
    return NoiseSensitivityQuantity(NOISES, sentences, seed, own=True)
