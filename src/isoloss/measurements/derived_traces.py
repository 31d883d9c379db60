"""What follows from traces: enlarged to another's shape (B.4), SGD's drift, its largest stable rate."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from torch import nn
from transformers import PreTrainedModel

from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.curvature.hessian_top_eigenvalue import hessian_top_eigenvalue
from isoloss.curvature.trace_descent import trace_descent_rate
from isoloss.errors import BadInput
from isoloss.measurements.fixed_sentences import DRAWN, FixedSentences, given
from isoloss.measurements.on_sentences.traces import TraceQuantity
from isoloss.measurements.quantity import (
    Column,
    Measurement,
    Subject,
    columns_in_order,
    columns_of,
    with_error,
)
from isoloss.models.enlarging import enlarged, enlargement_between, exact_form, paper_form
from isoloss.models.transformers import Shape
from isoloss.progress import Progress
from isoloss.results.checkpoint import read_checkpoint
from isoloss.results.estimate import Estimate
from isoloss.results.store import ONLY_WHEN_CHANGED

FormName = Literal["exact", "paper"]
FORMS = {"exact": exact_form, "paper": paper_form}


@dataclass(frozen=True)
class EnlargedTraceQuantity:
    """The trace of the model enlarged to the common shape `common`, on `sentences` sentences.

    The form "paper" follows B.4 to the letter, "exact" preserves the function; with tied embeddings they
    scale the embeddings' part by the width's factor k and by 1/k, respectively (docs/enlarging.md).
    """

    revision: ClassVar[int] = 1
    sources, drawn_as, draw = DRAWN
    column_names, columns = columns_of(
        lambda it: (*with_error(f"trace_{it.form}"), Column(f"trace_{it.form}_sentences", what="n"))
    )

    common: Shape
    form: FormName
    sentences: int
    seed: int

    def measure(
        self, model: PreTrainedModel, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """See `TraceQuantity`; holds the enlarged model in memory beside the original."""
        by = enlargement_between(Shape.of(model.config), self.common)
        large = enlarged(model, by, FORMS[self.form])
        settings = {**subject.settings, "enlarged_to": self.common.width, "form": self.form}
        trace = TraceQuantity(self.sentences, self.seed)
        return trace.measure(large, drawn, replace(subject, settings=settings), progress)


@dataclass(frozen=True)
class TraceDescentQuantity:
    """`trace_descent_rate` on `sentences` sentences, after a descent of `distance` = ηk.

    With `rate_reading`, the distance is in steps of the rate that the checkpoint has under that reading, for
    runs whose rate is not known beforehand.
    """

    revision: ClassVar[int] = 1
    sources, drawn_as, draw = DRAWN
    column_names, columns = columns_in_order("predicted_descent")

    sentences: int
    distance: float
    seed: int
    rate_reading: str | None = field(default=None, metadata=ONLY_WHEN_CHANGED)

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """`trace_descent_rate`. Raises Damaged where the checkpoint cannot be read."""
        (batch,) = drawn.batches
        distance = self.distance
        if self.rate_reading is not None:
            distance *= read_checkpoint(subject.folder).readings[self.rate_reading]
        rate = trace_descent_rate(
            model, subject.objective, batch, distance, seed=self.seed, progress=progress
        )
        name, unit = "trace_descent_rate", "nats per squared parameter and unit of η²k / 4B"
        return subject.measurement(name, rate, unit, self.seed, {"sentences": len(batch)})


EIGENVALUE_TOLERANCE = 1e-2


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
    sources, drawn_as, draw = DRAWN
    column_names, columns = columns_in_order("stable_rate")

    sentences: int
    seed: int
    batch: int = 4

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """By `hessian_top_eigenvalue`, with exact label distributions where known, and `fisher_trace`."""
        top = hessian_top_eigenvalue(
            model, **given(drawn, subject, progress), tolerance=EIGENVALUE_TOLERANCE, seed=self.seed
        ).estimate
        trace = fisher_trace(model, drawn.batches, subject.objective, seed=self.seed, progress=progress)
        found, unit = stable_rate(top, trace.estimate, self.batch), "squared parameters per nat"
        more = {"batch": self.batch, "top_eigenvalue": top.value, "trace": trace.estimate.value}
        return subject.measurement("stable_rate", found, unit, self.seed, more)


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
