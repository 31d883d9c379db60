"""The norm of the gradient of a checkpoint's loss."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.curvature.gradient_norm import gradient_norm
from isoloss.measurements.fixed_sentences import DRAWN_WITH_LABELS, FixedSentences, given
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order
from isoloss.progress import Progress

UNIT, SQUARED_UNIT = "nats per parameter", "squared nats per squared parameter"


@dataclass(frozen=True)
class GradientNormQuantity:
    """The norm of the gradient of the loss on `sentences` sentences; see `gradient_norm`."""

    revision: ClassVar[int] = 1
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_in_order("gradient_norm")

    sentences: int
    seed: int

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """`gradient_norm`, and its square, which is unbiased and additive over groups; `n` counts blocks."""
        found = gradient_norm(model, **given(drawn, subject, progress))
        seed, counts = self.seed, found.parameters.settings
        return Measurement(
            [
                subject.record("gradient_norm", found.norm, UNIT, seed, sentences=found.sentences, **counts),
                subject.record("gradient_norm_squared", found.squared, SQUARED_UNIT, seed),
                *subject.group_records("gradient_norm_squared", found.groups, SQUARED_UNIT, seed),
            ]
        )


on_sentences = GradientNormQuantity
