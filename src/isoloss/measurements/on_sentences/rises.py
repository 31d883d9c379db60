"""How much a checkpoint's loss rises when its weights change: by an ascent, by noise, by sampling."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import ClassVar

from torch import nn
from transformers import PreTrainedModel

from isoloss.curvature.local_learning_coefficient import (
    BURN_IN,
    CHAINS,
    DRAWS,
    LOCALISATION,
    local_learning_coefficient,
)
from isoloss.curvature.loss_rise import NOISES, RADII, ascent_sharpness, noise_sensitivity
from isoloss.errors import BadInput
from isoloss.measurements.fixed_sentences import DRAWN_WITH_LABELS, FixedSentences, given
from isoloss.measurements.quantity import (
    AnySource,
    Measurement,
    Quantity,
    Subject,
    columns_in_order,
    columns_named_by,
)
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
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[AnySource], progress: Progress
    ) -> Measurement:
        """An `ascent_sharpness` record per radius, with the gradient norm of the same set in its settings."""
        found = ascent_sharpness(model, **given(drawn, subject, progress), radii=self.radii)
        shared = {"gradient_norm": found.gradient_norm, **found.parameters.settings}
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
        self, model: PreTrainedModel, drawn: FixedSentences, subject: Subject[AnySource], progress: Progress
    ) -> Measurement:
        """A `noise_sensitivity` record per noise, which is in the settings; `n` counts draws."""
        found = noise_sensitivity(
            model,
            **given(drawn, subject, progress),
            noises=self.noises,
            scales=None if self.own else deviations_at_first(model),
            seed=self.seed,
        )
        shared = {"sentences": int(found.sentences.sum()), **found.parameters.settings}
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


def noise_sensitivity_on(sentences: int, seed: int) -> Quantity:
    """By its name, of a single model."""
    return NoiseSensitivityQuantity(NOISES, sentences, seed, own=True)


@dataclass(frozen=True)
class LocalLearningCoefficientQuantity:
    """The coefficient from `sentences` sentences; see `local_learning_coefficient`."""

    revision: ClassVar[int] = 1
    smaller_is: ClassVar[str] = "flatter"
    error_over: ClassVar[str] = "chains"
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_in_order("local_learning_coefficient")

    sentences: int
    seed: int
    localisation: float = LOCALISATION
    chains: int = CHAINS
    burn_in: int = BURN_IN
    draws: int = DRAWS

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[AnySource], progress: Progress
    ) -> Measurement:
        """`local_learning_coefficient`, with all that it was sampled by in its settings; `n` counts chains.

        A `warning` in them says why the number should not be trusted.
        """
        found = local_learning_coefficient(
            model,
            **given(drawn, subject, progress),
            chains=self.chains,
            burn_in=self.burn_in,
            draws=self.draws,
            localisation=self.localisation,
            seed=self.seed,
        )
        more: dict[str, Setting] = {
            "inverse_temperature": found.inverse_temperature,
            "localisation": self.localisation,
            "step": found.step,
            "burn_in": self.burn_in,
            "draws": self.draws,
            "drift": found.drift.value,
            "drift_error": found.drift.standard_error,
            "warning": found.warning,
            "sentences": found.sentences,
            **found.parameters.settings,
        }
        name = "local_learning_coefficient"
        record = subject.record(name, found.estimate, "parameters", self.seed, **more)
        return Measurement([record], {name: found.by_chain})


def local_learning_coefficient_on(sentences: int, seed: int, value: str | None = None) -> Quantity:
    """By its name; the value is the localisation γ."""
    try:
        localisation = LOCALISATION if value is None else float(value)
    except ValueError:
        localisation = -1.0
    if not 0 < localisation < float("inf"):
        raise BadInput(f"={value} is no localisation; give a number above 0, such as {LOCALISATION:g}")
    return LocalLearningCoefficientQuantity(sentences, seed, localisation)
