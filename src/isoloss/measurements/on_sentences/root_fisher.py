"""The sum of the square roots of the Fisher information's diagonal, which AdamW's drift descends."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.curvature.fisher_diagonal import fisher_diagonal
from isoloss.measurements.fixed_sentences import DRAWN, FixedSentences
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order
from isoloss.progress import Progress


@dataclass(frozen=True)
class RootFisherQuantity:
    """Σ_i √F_ii on `sentences` sentences; see `fisher_diagonal`."""

    revision: ClassVar[int] = 2
    smaller_is: ClassVar[str] = "flatter"
    sources, drawn_as, draw = DRAWN
    column_names, columns = columns_in_order("root_fisher")

    sentences: int
    seed: int

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """`sum_root_fisher`."""
        batch = drawn.joined
        found = fisher_diagonal(model, subject.objective, batch, progress=progress).root_sum
        unit = "square root of nats, summed over parameters"
        return subject.measurement("sum_root_fisher", found, unit, self.seed, {"sentences": len(batch)})


on_sentences = RootFisherQuantity
