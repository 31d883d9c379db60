"""How the eigenvalues of the Hessian of a checkpoint's loss are distributed."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.curvature.spectrum import PROBES, STEPS, SpectralDensity, spectral_density
from isoloss.measurements.fixed_sentences import DRAWN_WITH_LABELS, FixedSentences, given
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order
from isoloss.progress import Progress

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


on_sentences = SpectralDensityQuantity
