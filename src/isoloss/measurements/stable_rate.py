"""The largest learning rate at which SGD in small batches is stable at a checkpoint."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.curvature.hessian_top_eigenvalue import hessian_top_eigenvalue
from isoloss.errors import BadInput
from isoloss.measurements.fixed_sentences import FixedSentences, draw_sentences, labels_of
from isoloss.measurements.quantity import (
    LANGUAGES_AND_TEXT,
    AnySource,
    Measurement,
    Subject,
    columns_in_order,
)
from isoloss.progress import Progress
from isoloss.results.estimate import Estimate

TOLERANCE = 1e-2


@dataclass(frozen=True)
class StableRateQuantity:
    """2 / (λ + (λ + Tr) / b), with λ and Tr the top eigenvalue and the trace of the Hessian, on `sentences`.

    Below it, SGD in batches of `batch` b sentences is stable in mean square along the top eigenvector of a
    quadratic loss whose per-sentence Hessians are gg', with Gaussian g of covariance H: then E[H_b²] = H² +
    (H² + H Tr H) / b. For large b it is 2 / λ, the edge of stability of full-batch descent; for small b it
    also bounds what the noise adds to the loss, η Tr / 4b.

    Raises BadInput where it is not positive.
    """

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = LANGUAGES_AND_TEXT
    drawn_as: ClassVar[type] = FixedSentences

    sentences: int
    seed: int
    batch: int = 4

    draw = draw_sentences
    column_names, columns = columns_in_order("stable_rate")

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[AnySource], progress: Progress
    ) -> Measurement:
        """By `hessian_top_eigenvalue`, with exact label distributions where known, and `fisher_trace`."""
        top = hessian_top_eigenvalue(
            model,
            drawn.batches,
            subject.objective,
            distribution=labels_of(subject),
            tolerance=TOLERANCE,
            seed=self.seed,
            progress=progress,
        ).estimate
        trace = fisher_trace(model, drawn.batches, subject.objective, seed=self.seed, progress=progress)
        found = stable_rate(top, trace.estimate, self.batch)
        return Measurement(
            [
                subject.record(
                    "stable_rate",
                    found,
                    "squared parameters per nat",
                    self.seed,
                    batch=self.batch,
                    top_eigenvalue=top.value,
                    trace=trace.estimate.value,
                )
            ]
        )


def stable_rate(top: Estimate, trace: Estimate, batch: int) -> Estimate:
    """2 / (λ + (λ + Tr) / b), its error from those of λ and Tr as if they were independent.

    Raises BadInput where it is not positive.

    >>> stable_rate(Estimate(4.0, 0.0, 99), Estimate(12.0, 0.0, 99), 4).value
    0.25
    """
    curvature = top.value + (top.value + trace.value) / batch
    if not curvature > 0:
        raise BadInput(
            f"the Hessian's largest eigenvalue is {top.value:.6g}, which bounds no learning rate; measure a "
            "model that has been trained for some steps"
        )
    error = ((1 + 1 / batch) ** 2 * top.standard_error**2 + trace.standard_error**2 / batch**2) ** 0.5
    return Estimate(2 / curvature, 2 * error / curvature**2, top.n)
