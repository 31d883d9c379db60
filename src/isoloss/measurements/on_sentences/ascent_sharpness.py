"""SAM's sharpness of a checkpoint: how much its loss rises after a small step along its gradient."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.curvature.loss_rise import RADII, ascent_sharpness
from isoloss.measurements.fixed_sentences import DRAWN_WITH_LABELS, FixedSentences, given
from isoloss.measurements.quantity import Measurement, Subject, columns_named_by, rounding_of_steps
from isoloss.progress import Progress
from isoloss.results.record import Setting


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


on_sentences = AscentSharpnessQuantity
