"""The largest eigenvalue of the Hessian of a checkpoint's loss."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.curvature.fisher_trace import TRACE_UNIT
from isoloss.curvature.hessian_top_eigenvalue import hessian_top_eigenvalue
from isoloss.measurements.fixed_sentences import DRAWN_WITH_LABELS, FixedSentences, given
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order
from isoloss.progress import Progress
from isoloss.results.record import Setting


@dataclass(frozen=True)
class TopEigenvalueQuantity:
    """The top eigenvalue of the loss on `sentences` sentences; see `hessian_top_eigenvalue`.

    `tolerance` is its relative numerical accuracy; checkpoints differ by far more.
    """

    revision: ClassVar[int] = 1
    smaller_is: ClassVar[str] = "flatter"
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_in_order("top_eigenvalue")

    sentences: int
    seed: int
    tolerance: float = 1e-2

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """`hessian_top_eigenvalue`, with its numerical residual in the settings, and its groups' parts."""
        found = hessian_top_eigenvalue(
            model, **given(drawn, subject, progress), tolerance=self.tolerance, seed=self.seed
        )
        more: dict[str, Setting] = {
            "sentences": found.sentences,
            "residual": found.residual,
            "converged": found.converged,
            "products": found.products,
            **found.parameters.settings,
        }
        if not found.converged:
            more["warning"] = f"the eigenvalue has not converged: residual {found.residual:.2g}"
        name, seed = "hessian_top_eigenvalue", self.seed
        return subject.measurement(name, found.estimate, TRACE_UNIT, seed, more, groups=found.groups)


TOLERANCE = 1e-3
"""Of the eigenvalue of a single model, which is not compared with others of a run."""


def on_sentences(sentences: int, seed: int) -> TopEigenvalueQuantity:
    """See the folder."""
    return TopEigenvalueQuantity(sentences, seed, TOLERANCE)
