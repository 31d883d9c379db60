"""2 over the smallest learning rate at which a gradient step raises the loss."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from isoloss.curvature.critical_sharpness import critical_sharpness
from isoloss.measurements.fixed_sentences import FixedSentences, draw_labelled_sentences, labels_of
from isoloss.measurements.quantity import (
    LANGUAGES_AND_TEXT,
    AnySource,
    Measurement,
    Subject,
    columns_in_order,
)
from isoloss.progress import Progress


@dataclass(frozen=True)
class CriticalSharpnessQuantity:
    """The critical sharpness along the gradient on `sentences` sentences; see `critical_sharpness`."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = LANGUAGES_AND_TEXT
    drawn_as: ClassVar[type] = FixedSentences

    sentences: int
    seed: int

    draw = draw_labelled_sentences
    column_names, columns = columns_in_order("critical_sharpness")

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[AnySource], progress: Progress
    ) -> Measurement:
        """`critical_sharpness`, with the critical learning rate in its settings."""
        found = critical_sharpness(
            model, drawn.batches, subject.objective, distribution=labels_of(subject), progress=progress
        )
        more = {"learning_rate": found.learning_rate, "passes": found.passes, **found.parameters.settings}
        unit = "1 / learning rate"
        return Measurement([subject.record("critical_sharpness", found.estimate, unit, self.seed, **more)])


def on_sentences(sentences: int, seed: int) -> CriticalSharpnessQuantity:
    """See the folder."""
    return CriticalSharpnessQuantity(sentences, seed)
