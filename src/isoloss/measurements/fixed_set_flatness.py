"""The measures of flatness that are taken on a fixed set of sentences, as records."""

from collections.abc import Mapping, Sequence
from typing import Literal

from torch import nn

from isoloss.curvature.ascent_sharpness import ascent_sharpness
from isoloss.curvature.gradient_norm import gradient_norm
from isoloss.curvature.hessian_top_eigenvalue import hessian_top_eigenvalue
from isoloss.curvature.noise_sensitivity import noise_sensitivity
from isoloss.curvature.normalised_trace import normalised_trace
from isoloss.measurements.flatness_records import (
    ascent_sharpness_records,
    gradient_norm_records,
    noise_sensitivity_records,
    normalised_trace_records,
    top_eigenvalue_records,
)
from isoloss.measurements.record import Record, Setting
from isoloss.objectives.batch import Batch, Objective
from isoloss.progress import Progress, silent

FixedSetQuantity = Literal[
    "gradient_norm", "hessian_top_eigenvalue", "normalised_trace", "ascent_sharpness", "noise_sensitivity"
]


def fixed_set_records(
    quantity: FixedSetQuantity,
    model: nn.Module,
    sentences: Sequence[Batch],
    objective: Objective,
    *,
    seed: int,
    name: str,
    settings: Mapping[str, Setting],
    progress: Progress = silent,
) -> list[Record]:
    """Measure one quantity of the model called `name`; see the function of the quantity's own name.

    Labels are the data's. Radii and noises are the functions' own. Raises BadInput as those do.
    """
    match quantity:
        case "gradient_norm":
            norm = gradient_norm(model, sentences, objective, progress=progress)
            return gradient_norm_records(norm, seed, name, settings)
        case "hessian_top_eigenvalue":
            top = hessian_top_eigenvalue(model, sentences, objective, seed=seed, progress=progress)
            return top_eigenvalue_records(top, seed, name, settings)
        case "normalised_trace":
            normalised = normalised_trace(model, sentences, objective, seed=seed, progress=progress)
            return normalised_trace_records(normalised, seed, name, settings)
        case "ascent_sharpness":
            sharpness = ascent_sharpness(model, sentences, objective, progress=progress)
            return ascent_sharpness_records(sharpness, seed, name, settings)
        case "noise_sensitivity":
            sensitivity = noise_sensitivity(model, sentences, objective, seed=seed, progress=progress)
            return noise_sensitivity_records(sensitivity, seed, name, settings)
