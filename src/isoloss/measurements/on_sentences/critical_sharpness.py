"""2 over the smallest learning rate at which a gradient step raises the loss."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.curvature.critical_sharpness import critical_sharpness
from isoloss.measurements.fixed_sentences import DRAWN_WITH_LABELS, FixedSentences, given
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order, rounding_of_steps
from isoloss.progress import Progress
from isoloss.results.record import Setting


@dataclass(frozen=True)
class CriticalSharpnessQuantity:
    """The critical sharpness along the gradient on `sentences` sentences; see `critical_sharpness`."""

    revision: ClassVar[int] = 2
    smaller_is: ClassVar[str] = "flatter"
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_in_order("critical_sharpness")

    sentences: int
    seed: int

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """`critical_sharpness`, with the critical learning rate in its settings."""
        found = critical_sharpness(model, **given(drawn, subject, progress))
        more: dict[str, Setting] = {
            "learning_rate": found.learning_rate,
            "passes": found.passes,
            **found.parameters.settings,
            **rounding_of_steps(model),
        }
        unit = "1 / learning rate"
        return subject.measurement("critical_sharpness", found.estimate, unit, self.seed, more)


on_sentences = CriticalSharpnessQuantity
