"""The Hessian of a checkpoint's loss: its trace, its largest eigenvalues, and how all are distributed."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.curvature.fisher_trace import TRACE_UNIT
from isoloss.curvature.hessian_top_eigenvalue import hessian_top_eigenvalue
from isoloss.curvature.hessian_trace import HessianTrace, RunningHessianTrace, hessian_trace
from isoloss.curvature.spectrum import (
    EIGENVALUES,
    PROBES,
    STEPS,
    SpectralDensity,
    spectral_density,
    top_eigenvalues,
)
from isoloss.measurements.fixed_sentences import DRAWN_WITH_LABELS, FixedSentences, given
from isoloss.measurements.on_sentences import whole_number
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order, columns_named_by
from isoloss.objectives.batch import Objective
from isoloss.progress import Progress
from isoloss.results.estimate import cluster_values
from isoloss.results.record import Setting


@dataclass(frozen=True)
class HessianTraceQuantity:
    """The trace on `sentences` sentences; `seed` determines them, their masks, the signs and the probes."""

    revision: ClassVar[int] = 1
    smaller_is: ClassVar[str] = "flatter"
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_in_order("hessian_trace", "hessian_minus_fisher")

    sentences: int
    seed: int

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        trace = hessian_trace(model, **given(drawn, subject, progress), seed=self.seed)
        return self.measurement(trace, subject)

    def running(self, model: nn.Module, objective: Objective, memory_bytes: int) -> RunningHessianTrace:
        return RunningHessianTrace(model, objective, self.seed, memory_bytes=memory_bytes)

    def measurement(self, result: HessianTrace, subject: Subject[Any]) -> Measurement:
        """`hessian_trace`, its groups, and `hessian_minus_fisher`, which vanishes at saturation (Lemma 3.2).

        `n` counts clusters of sentences; the settings of the total give the number of sentences.
        """
        seed, counts = self.seed, result.parameters.settings
        sentences = int(result.sentences.sum())
        records = [
            subject.record("hessian_trace", result.estimate, TRACE_UNIT, seed, sentences=sentences, **counts),
            subject.record("hessian_minus_fisher", result.residual_estimate, TRACE_UNIT, seed),
            *subject.group_records("hessian_trace", result.group_estimates, TRACE_UNIT, seed),
        ]
        return Measurement(records, {"hessian_trace": cluster_values(result.values, result.sentences)})


hessian_trace_on_sentences = HessianTraceQuantity


@dataclass(frozen=True)
class TopEigenvalueQuantity:
    """The top eigenvalue of the loss on `sentences` sentences; see `hessian_top_eigenvalue`.

    `tolerance` is its relative numerical accuracy; checkpoints differ by far more.
    """

    revision: ClassVar[int] = 1
    smaller_is: ClassVar[str] = "flatter"
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_in_order("top_eigenvalue")

    sentences: int
    seed: int
    tolerance: float = 1e-2

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """`hessian_top_eigenvalue`, with its numerical residual in the settings, and its groups' parts."""
        found = hessian_top_eigenvalue(
            model, **given(drawn, subject, progress), tolerance=self.tolerance, seed=self.seed
        )
        more: dict[str, Setting] = {
            "sentences": found.sentences,
            "residual": found.residual,
            "converged": found.converged,
            "products": found.products,
            **found.parameters.settings,
        }
        if not found.converged:
            more["warning"] = f"the eigenvalue has not converged: residual {found.residual:.2g}"
        name, seed = "hessian_top_eigenvalue", self.seed
        return subject.measurement(name, found.estimate, TRACE_UNIT, seed, more, groups=found.groups)


TOLERANCE = 1e-3


def hessian_top_eigenvalue_on_sentences(sentences: int, seed: int) -> TopEigenvalueQuantity:
    """Of a single model, which is not compared with others of a run: to `TOLERANCE`."""
    return TopEigenvalueQuantity(sentences, seed, TOLERANCE)


@dataclass(frozen=True)
class TopEigenvaluesQuantity:
    """The `count` largest eigenvalues of the loss on `sentences` sentences; see `top_eigenvalues`."""

    revision: ClassVar[int] = 1
    smaller_is: ClassVar[str] = "flatter"
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_named_by(lambda it: [f"eigenvalue_{n + 1}" for n in range(it.count)])

    sentences: int
    seed: int
    count: int = EIGENVALUES

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """A record `hessian_eigenvalue` for each, largest first, with its `rank` and residual."""
        found = top_eigenvalues(model, **given(drawn, subject, progress), count=self.count, seed=self.seed)
        shared = {"products": found.products, "sentences": found.sentences, **found.parameters.settings}
        name, seed = "hessian_eigenvalue", self.seed
        ranked = enumerate(zip(found.estimates, found.residuals, strict=True), start=1)
        records = [
            subject.record(name, estimate, TRACE_UNIT, seed, rank=rank, residual=residual, **shared)
            for rank, (estimate, residual) in ranked
        ]
        return Measurement(records)


def top_eigenvalues_on_sentences(
    sentences: int, seed: int, value: str | None = None
) -> TopEigenvaluesQuantity:
    """See the folder; the value is how many eigenvalues."""
    return TopEigenvaluesQuantity(sentences, seed, whole_number(value, EIGENVALUES, "eigenvalues"))


SPACINGS = 24
"""How many the spectrum has at least: its resolution."""


@dataclass(frozen=True)
class SpectralDensityQuantity:
    """The density of the eigenvalues of the loss on `sentences` sentences; see `spectral_density`."""

    revision: ClassVar[int] = 2
    error_over: ClassVar[str] = (
        "random probes, of effective_rank and negative_curvature with the larger change of the last two "
        "steps; compare these only at equal steps, of models of one size"
    )
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_in_order("effective_rank", "negative_curvature")

    sentences: int
    seed: int
    probes: int = PROBES
    steps: int = STEPS

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """`effective_rank`, `negative_curvature`, and the density at every `eigenvalue` of a `grid`.

        `n` counts probes. The density is smoothed with a Gaussian of the grid's spacing, `width`.
        """
        found = spectral_density(
            model, **given(drawn, subject, progress), probes=self.probes, steps=self.steps, seed=self.seed
        )
        shared = {
            "sentences": found.sentences,
            "steps": found.nodes.shape[1],
            "products": found.products,
            **found.parameters.settings,
        }
        record, seed = subject.record, self.seed
        records = [
            record("effective_rank", found.effective_rank, "eigenvalues", seed, **shared),
            record("negative_curvature", found.negative_curvature, "share of Σ |λ|", seed, **shared),
        ]
        width, points = grid(found)
        name, unit = "spectral_density", "squared parameters per nat"
        for at in points:
            records.append(record(name, found.density(at, width), unit, seed, eigenvalue=at, width=width))
        return Measurement(records)


def grid(found: SpectralDensity) -> tuple[float, list[float]]:
    """Multiples of a round number, as far apart as that, over the whole spectrum and two spacings beyond."""
    known = found.nodes[found.weights > 0]
    low, high = min(float(known.min()), 0.0), max(float(known.max()), 0.0)
    spacing = round_below((high - low) / SPACINGS)
    places = range(math.floor(low / spacing) - 2, math.ceil(high / spacing) + 3)
    return spacing, [float(f"{place * spacing:.6g}") for place in places]


def round_below(number: float) -> float:
    """The largest 1, 2 or 5 times a power of ten that is not above a number; 1 if that is not positive.

    >>> round_below(0.37), round_below(5.0), round_below(1999.0)
    (0.2, 5.0, 1000.0)
    """
    if not number > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(number) + 1e-9)
    return max(step * power for step in (1.0, 2.0, 5.0) if step * power <= number * (1 + 1e-9))


spectral_density_on_sentences = SpectralDensityQuantity
