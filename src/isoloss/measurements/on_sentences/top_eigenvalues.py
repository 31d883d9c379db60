"""The largest eigenvalues of the Hessian of a checkpoint's loss."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.curvature.fisher_trace import TRACE_UNIT
from isoloss.curvature.spectrum import EIGENVALUES, top_eigenvalues
from isoloss.measurements.fixed_sentences import DRAWN_WITH_LABELS, FixedSentences, given
from isoloss.measurements.on_sentences import whole_number
from isoloss.measurements.quantity import Measurement, Subject, columns_named_by
from isoloss.progress import Progress


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


def on_sentences(sentences: int, seed: int, value: str | None = None) -> TopEigenvaluesQuantity:
    """See the folder; the value is how many eigenvalues."""
    return TopEigenvaluesQuantity(sentences, seed, whole_number(value, EIGENVALUES, "eigenvalues"))
