"""The largest eigenvalues of the Hessian of a checkpoint's loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from isoloss.curvature.fisher_trace import TRACE_UNIT
from isoloss.curvature.spectrum import EIGENVALUES, top_eigenvalues
from isoloss.measurements.fixed_sentences import FixedSentences, draw_labelled_sentences, labels_of
from isoloss.measurements.on_sentences import whole_number
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


@dataclass(frozen=True)
class TopEigenvaluesQuantity:
    """The `count` largest eigenvalues of the loss on `sentences` sentences; see `top_eigenvalues`."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = LANGUAGES_AND_TEXT
    drawn_as: ClassVar[type] = FixedSentences

    sentences: int
    seed: int
    count: int = EIGENVALUES

    draw = draw_labelled_sentences

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[AnySource], progress: Progress
    ) -> Measurement:
        """A record `hessian_eigenvalue` for each, largest first, with its `rank` and residual."""
        found = top_eigenvalues(
            model,
            drawn.batches,
            subject.objective,
            count=self.count,
            distribution=labels_of(subject),
            seed=self.seed,
            progress=progress,
        )
        shared = {"products": found.products, "sentences": found.sentences, **found.parameters.settings}
        return Measurement(
            [
                subject.record(
                    "hessian_eigenvalue",
                    estimate,
                    TRACE_UNIT,
                    self.seed,
                    rank=rank,
                    residual=residual,
                    **shared,
                )
                for rank, (estimate, residual) in enumerate(
                    zip(found.estimates, found.residuals, strict=True), start=1
                )
            ]
        )

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `Quantity`."""
        return names_with_errors(*(f"eigenvalue_{rank}" for rank in range(1, self.count + 1)))

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: `eigenvalue_1`, the largest, and its error, and so on."""
        columns: Columns = {}
        for rank, record in enumerate(records, start=1):
            columns |= value_and_error(f"eigenvalue_{rank}", record)
        return columns


def on_sentences(sentences: int, seed: int, value: str | None = None) -> TopEigenvaluesQuantity:
    """See the folder; the value is how many eigenvalues."""
    return TopEigenvaluesQuantity(sentences, seed, whole_number(value, EIGENVALUES, "eigenvalues"))
