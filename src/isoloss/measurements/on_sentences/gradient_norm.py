"""The norm of the gradient of a checkpoint's loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from isoloss.curvature.gradient_norm import gradient_norm
from isoloss.measurements.fixed_sentences import FixedSentences, draw_labelled_sentences, labels_of
from isoloss.measurements.quantity import (
    LANGUAGES_AND_TEXT,
    AnySource,
    Columns,
    Measurement,
    Subject,
    names_with_errors,
    value_and_error,
)
from isoloss.progress import Progress
from isoloss.results.record import Record

UNIT, SQUARED_UNIT = "nats per parameter", "squared nats per squared parameter"


@dataclass(frozen=True)
class GradientNormQuantity:
    """The norm of the gradient of the loss on `sentences` sentences; see `gradient_norm`."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = LANGUAGES_AND_TEXT
    drawn_as: ClassVar[type] = FixedSentences

    sentences: int
    seed: int

    draw = draw_labelled_sentences

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[AnySource], progress: Progress
    ) -> Measurement:
        """`gradient_norm`, and its square, which is unbiased and additive over groups; `n` counts blocks."""
        found = gradient_norm(
            model, drawn.batches, subject.objective, distribution=labels_of(subject), progress=progress
        )
        seed, counts = self.seed, found.parameters.settings
        return Measurement(
            [
                subject.record("gradient_norm", found.norm, UNIT, seed, sentences=found.sentences, **counts),
                subject.record("gradient_norm_squared", found.squared, SQUARED_UNIT, seed),
                *subject.group_records("gradient_norm_squared", found.groups, SQUARED_UNIT, seed),
            ]
        )

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `Quantity`."""
        return names_with_errors("gradient_norm")

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: `gradient_norm` and its error."""
        return value_and_error("gradient_norm", records[0])


def on_sentences(sentences: int, seed: int) -> GradientNormQuantity:
    """See the folder."""
    return GradientNormQuantity(sentences, seed)
