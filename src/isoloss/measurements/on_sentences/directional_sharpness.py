"""The curvature of a checkpoint's loss along an update: its gradient, or what leads to another checkpoint."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.directional_curvature import difference_of, directional_sharpness
from isoloss.curvature.fisher_trace import TRACE_UNIT
from isoloss.measurements.fixed_sentences import DRAWN_WITH_LABELS, FixedSentences, given
from isoloss.measurements.models_together import load_together
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order
from isoloss.models.loading import Prediction
from isoloss.objectives.pretrained import PretrainedCausal, PretrainedMasked
from isoloss.progress import Progress
from isoloss.results.record import Setting

_PREDICTIONS: dict[type, Prediction] = {PretrainedMasked: "masked", PretrainedCausal: "causal"}
"""What another language model predicts; one with the head of a task says itself."""


@dataclass(frozen=True)
class DirectionalSharpnessQuantity:
    """vᵀHv / |v|² on `sentences` sentences, v the difference to the model `towards`, or the gradient.

    See `directional_sharpness`.
    """

    revision: ClassVar[int] = 1
    smaller_is: ClassVar[str] = "flatter"
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_in_order("directional_sharpness")

    sentences: int
    seed: int
    towards: str | None = None

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """`directional_sharpness` and its groups' parts, with the length of v in the settings."""
        direction = None
        if self.towards is not None:
            reads = getattr(subject.objective, "objective", subject.objective)  # of `EqualLengths`, its own
            first = next(iter(trainable_parameters(model).values()))
            loaded, _ = load_together([self.towards], _PREDICTIONS.get(type(reads)), first.dtype, "cpu", None)
            direction = difference_of(model, loaded[self.towards])
        found = directional_sharpness(model, **given(drawn, subject, progress), direction=direction)
        settings: dict[str, Setting] = {
            "towards": self.towards or "the gradient",
            "length": found.norm,
            "sentences": found.sentences,
            **found.parameters.settings,
        }
        return subject.measurement(
            "directional_sharpness",
            found.estimate,
            TRACE_UNIT,
            self.seed,
            settings,
            values=found.by_block,
            groups=found.groups,
        )


def on_sentences(sentences: int, seed: int, value: str | None = None) -> DirectionalSharpnessQuantity:
    """See the folder; the value is the other model's folder, or its name on a hub."""
    return DirectionalSharpnessQuantity(sentences, seed, value)
