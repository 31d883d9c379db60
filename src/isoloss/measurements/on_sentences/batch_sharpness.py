"""The curvature that a small batch's loss has along its own gradient, where SGD comes to the edge."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.curvature.directional_curvature import BATCH, batch_sharpness
from isoloss.curvature.fisher_trace import TRACE_UNIT
from isoloss.measurements.fixed_sentences import DRAWN_WITH_LABELS, FixedSentences, given
from isoloss.measurements.on_sentences import whole_number
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order
from isoloss.progress import Progress


@dataclass(frozen=True)
class BatchSharpnessQuantity:
    """E_B[gᵀHg / |g|²] over batches of `batch` of the `sentences` sentences; see `batch_sharpness`."""

    revision: ClassVar[int] = 1
    smaller_is: ClassVar[str] = "flatter"
    error_over: ClassVar[str] = "batches of sentences"
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_in_order("batch_sharpness")

    sentences: int
    seed: int
    batch: int = BATCH

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """`batch_sharpness`; `n` counts batches."""
        joined = FixedSentences((drawn.joined,))
        found = batch_sharpness(model, **given(joined, subject, progress), batch=self.batch)
        more = {"batch": self.batch, "sentences": found.sentences, **found.parameters.settings}
        name, values = "batch_sharpness", found.by_batch
        return subject.measurement(name, found.estimate, TRACE_UNIT, self.seed, more, values=values)


def on_sentences(sentences: int, seed: int, value: str | None = None) -> BatchSharpnessQuantity:
    """See the folder; the value is the number of sentences in a batch, for at least four batches."""
    usual = min(BATCH, max(1, sentences // 4))
    return BatchSharpnessQuantity(sentences, seed, whole_number(value, usual, "sentences in a batch"))
