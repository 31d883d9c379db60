"""A checkpoint's gradients: of its loss, their norm and noise; of its scores, their squares, by units too."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.curvature.fisher_diagonal import fisher_diagonal, unit_trace
from isoloss.curvature.gradient_norm import gradient_norm
from isoloss.errors import BadInput
from isoloss.measurements.fixed_sentences import DRAWN, DRAWN_WITH_LABELS, FixedSentences, given
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order
from isoloss.progress import Progress
from isoloss.results.estimate import Estimate

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


gradient_norm_on_sentences = GradientNormQuantity


@dataclass(frozen=True)
class GradientNoiseScaleQuantity:
    """||∇L||² / tr Σ on `sentences` sentences with the data's labels; see `noise_and_signal`.

    The noise scale itself, its inverse, is a record of its own where the whole 95 % interval is above zero:
    nearer to zero it has no finite mean.
    """

    revision: ClassVar[int] = 1
    sources, drawn_as, draw = DRAWN
    column_names, columns = columns_in_order("inverse_gradient_noise_scale", "gradient_noise")

    sentences: int
    seed: int

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """`inverse_gradient_noise_scale`, `gradient_noise` (tr Σ) and, if known, `gradient_noise_scale`."""
        found = gradient_norm(model, drawn.batches, subject.objective, progress=progress)
        signal, seed = found.signal, self.seed
        if not math.isfinite(signal.standard_error):
            same = "all sentences but one have" if math.isfinite(signal.value) else "every sentence has"
            raise BadInput(
                f"{subject.checkpoint}: {same} the same gradient, which tells no "
                "noise, or not its error; give more sentences that differ"
            )
        name, unit, n = "inverse_gradient_noise_scale", "per sentence", found.sentences
        records = [
            subject.record(name, signal, unit, seed, sentences=n),
            subject.record("gradient_noise", found.noise, "nats squared per squared parameter", seed),
        ]
        if signal.interval(0.95)[0] > 0:
            scale = Estimate(1 / signal.value, signal.standard_error / signal.value**2, signal.n)
            records.append(subject.record("gradient_noise_scale", scale, "sentences", seed))
        return Measurement(records)


gradient_noise_scale_on_sentences = GradientNoiseScaleQuantity


@dataclass(frozen=True)
class UnitTraceQuantity:
    """The Fisher information relative to each unit's weights, on `sentences` sentences; see `unit_trace`."""

    revision: ClassVar[int] = 4
    smaller_is: ClassVar[str] = "flatter"
    sources, drawn_as, draw = DRAWN
    column_names, columns = columns_in_order("unit_trace")

    sentences: int
    seed: int

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        found = unit_trace(model, drawn.batches, subject.objective, seed=self.seed, progress=progress)
        return subject.measurement(
            "unit_trace", found.estimate, "nats", self.seed, {"units": found.units}, values=found.values
        )


unit_trace_on_sentences = UnitTraceQuantity


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
        batch = drawn.joined
        found = fisher_diagonal(model, subject.objective, batch, progress=progress).root_sum
        unit = "square root of nats, summed over parameters"
        return subject.measurement("sum_root_fisher", found, unit, self.seed, {"sentences": len(batch)})


root_fisher_on_sentences = RootFisherQuantity
