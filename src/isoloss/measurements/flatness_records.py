"""The measures of flatness as records: the whole, its parts, and differences between models."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.ascent_sharpness import AscentSharpness
from isoloss.curvature.fisher_trace import FisherTrace, fisher_trace
from isoloss.curvature.gradient_norm import GradientNorm
from isoloss.curvature.hessian_top_eigenvalue import TopEigenvalue
from isoloss.curvature.hessian_trace import HessianTrace
from isoloss.curvature.measured_parameters import MeasuredParameters
from isoloss.curvature.noise_sensitivity import NoiseSensitivity
from isoloss.curvature.normalised_trace import NormalisedTrace
from isoloss.curvature.per_sentence_norms import MEMORY_BYTES
from isoloss.estimate import Estimate, cluster_values
from isoloss.languages.language import SentenceSource
from isoloss.measurements.record import Record, Setting
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.many_masks import once_each
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.progress import Progress, silent

TRACE_UNIT = "nats per squared parameter"
GRADIENT_UNIT = "nats per parameter"
SQUARED_GRADIENT_UNIT = "squared nats per squared parameter"
RISE_UNIT = "nats"


@dataclass(frozen=True)
class _Of:
    """What all records of one measurement share."""

    seed: int
    checkpoint: str
    settings: Mapping[str, Setting]

    def record(self, quantity: str, estimate: Estimate, unit: str, **more: Setting) -> Record:
        settings = {**self.settings, **more}
        error = estimate.standard_error
        return Record(quantity, estimate.value, unit, error, estimate.n, self.seed, self.checkpoint, settings)

    def parts(self, quantity: str, groups: Mapping[str, Estimate], unit: str) -> list[Record]:
        return [
            self.record(f"{quantity}_of_group", estimate, unit, group=name)
            for name, estimate in groups.items()
        ]


def flatness_records(
    trace: FisherTrace, seed: int, checkpoint: str, settings: Mapping[str, Setting]
) -> list[Record]:
    """`fisher_trace` with its standard error over sentences, and a `fisher_trace_of_group` for each group.

    The whole's settings also say how many parameters were differentiated and how many were frozen; the
    groups' settings name the group, and their values add up to the whole's. Where sentences differ in
    their number of predictions, `fisher_trace_token_averaged` has every prediction counting alike.
    """
    of = _Of(seed, checkpoint, settings)
    records = [of.record("fisher_trace", trace.estimate, TRACE_UNIT, **_counts(trace.parameters))]
    if trace.predictions.min() < trace.predictions.max():
        records.append(of.record("fisher_trace_token_averaged", trace.token_averaged, TRACE_UNIT))
    return records + of.parts("fisher_trace", trace.group_estimates, TRACE_UNIT)


def trace_sentence_values(trace: FisherTrace) -> dict[str, Float[Tensor, " n"]]:
    """Of each of the `flatness_records` its value a sentence, under `value_name`."""
    groups = {f"fisher_trace_of_group {name}": values for name, values in trace.groups.items()}
    found = {"fisher_trace": trace.values, **groups}
    if trace.predictions.min() < trace.predictions.max():
        found["fisher_trace_token_averaged"] = cluster_values(trace.values, trace.predictions)
    return found


def hessian_trace_records(
    trace: HessianTrace, seed: int, checkpoint: str, settings: Mapping[str, Setting]
) -> list[Record]:
    """`hessian_trace`, its groups, and `hessian_minus_fisher`, which Lemma 3.2 says vanishes at saturation.

    `n` counts clusters of sentences, and the whole's settings the sentences.
    """
    of = _Of(seed, checkpoint, settings)
    sentences = int(trace.sentences.sum())
    return [
        of.record(
            "hessian_trace", trace.estimate, TRACE_UNIT, sentences=sentences, **_counts(trace.parameters)
        ),
        of.record("hessian_minus_fisher", trace.residual_estimate, TRACE_UNIT),
        *of.parts("hessian_trace", trace.group_estimates, TRACE_UNIT),
    ]


def gradient_norm_records(
    found: GradientNorm, seed: int, checkpoint: str, settings: Mapping[str, Setting]
) -> list[Record]:
    """`gradient_norm`, and its square, which is unbiased and whose groups add up; `n` counts blocks."""
    of = _Of(seed, checkpoint, settings)
    return [
        of.record(
            "gradient_norm",
            found.norm,
            GRADIENT_UNIT,
            sentences=found.sentences,
            **_counts(found.parameters),
        ),
        of.record("gradient_norm_squared", found.squared, SQUARED_GRADIENT_UNIT),
        *of.parts("gradient_norm_squared", found.groups, SQUARED_GRADIENT_UNIT),
    ]


def top_eigenvalue_records(
    found: TopEigenvalue, seed: int, checkpoint: str, settings: Mapping[str, Setting]
) -> list[Record]:
    """`hessian_top_eigenvalue` with its numerical residual among the settings, and its groups' parts."""
    of = _Of(seed, checkpoint, settings)
    whole = of.record(
        "hessian_top_eigenvalue",
        found.estimate,
        TRACE_UNIT,
        sentences=found.sentences,
        residual=found.residual,
        converged=found.converged,
        products=found.products,
        **_counts(found.parameters),
    )
    return [whole, *of.parts("hessian_top_eigenvalue", found.groups, TRACE_UNIT)]


def ascent_sharpness_records(
    found: AscentSharpness, seed: int, checkpoint: str, settings: Mapping[str, Setting]
) -> list[Record]:
    """An `ascent_sharpness` for each radius, among the settings with the norm of the set's own gradient."""
    of = _Of(seed, checkpoint, settings)
    shared = {"gradient_norm": found.gradient_norm, **_counts(found.parameters)}
    return [
        of.record("ascent_sharpness", estimate, RISE_UNIT, radius=radius, **shared)
        for radius, estimate in found.estimates.items()
    ]


def normalised_trace_records(
    found: NormalisedTrace, seed: int, checkpoint: str, settings: Mapping[str, Setting]
) -> list[Record]:
    """`normalised_fisher_trace`, tensor by tensor, and `wholly_normalised_fisher_trace`, in nats."""
    of = _Of(seed, checkpoint, settings)
    counts = _counts(found.parameters)
    return [
        of.record("normalised_fisher_trace", found.estimate, RISE_UNIT, **counts),
        of.record("wholly_normalised_fisher_trace", found.whole_estimate, RISE_UNIT, **counts),
    ]


def noise_sensitivity_records(
    found: NoiseSensitivity, seed: int, checkpoint: str, settings: Mapping[str, Setting]
) -> list[Record]:
    """A `noise_sensitivity` for each noise, which is among the settings; `n` counts draws."""
    of = _Of(seed, checkpoint, settings)
    shared = {"sentences": int(found.sentences.sum()), **_counts(found.parameters)}
    return [
        of.record("noise_sensitivity", estimate, RISE_UNIT, noise=noise, **shared)
        for noise, estimate in found.estimates.items()
    ]


def difference_record(
    quantity: str,
    difference: Estimate,
    seed: int,
    names: tuple[str, str],
    settings: Mapping[str, Setting],
) -> Record:
    """`quantity`_difference: the first of `names` less the second, with the error bar of the difference."""
    checkpoint, subtracted = names
    of = _Of(seed, checkpoint, settings)
    return of.record(f"{quantity}_difference", difference, TRACE_UNIT, reference=subtracted)


def _counts(parameters: MeasuredParameters) -> dict[str, Setting]:
    return {"parameters": parameters.count, "frozen_tensors": len(parameters.frozen)}


@dataclass(frozen=True)
class FlatnessSet:
    """Fixed sentences and what is predicted of each: with `MaskedObjective` one word.

    `seed` settles the sentences and the masks, and the signs of the trace as well: checkpoints measured
    on one set differ by their weights alone.
    """

    batch: Batch
    seed: int

    @staticmethod
    def draw(language: SentenceSource, objective: PretrainingObjective, n: int, seed: int) -> "FlatnessSet":
        """Draw n sentences and what the objective predicts of them, each taken once (`once_each`)."""
        generator = torch.Generator().manual_seed(seed)
        sentences = language.sample(n, generator)
        return FlatnessSet(once_each(objective).draw(sentences, generator), seed)


def flatness(
    model: nn.Module,
    objective: Objective,
    flatness_set: FlatnessSet,
    *,
    memory_bytes: int = MEMORY_BYTES,
    progress: Progress = silent,
) -> FisherTrace:
    """The trace of the model's Fisher information on the set; see `fisher_trace`."""
    return fisher_trace(
        model,
        [flatness_set.batch],
        objective,
        seed=flatness_set.seed,
        memory_bytes=memory_bytes,
        progress=progress,
    )
