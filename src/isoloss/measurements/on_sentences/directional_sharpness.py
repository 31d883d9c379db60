"""The curvature of a checkpoint's loss along an update: its gradient, or what leads to another checkpoint."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.directional_curvature import directional_sharpness
from isoloss.curvature.fisher_trace import TRACE_UNIT
from isoloss.curvature.weight_changes import differences
from isoloss.measurements.fixed_sentences import DRAWN_WITH_LABELS, FixedSentences, given
from isoloss.measurements.models_on_text import load_predicting, prediction_of
from isoloss.measurements.prediction import MaskedTokens, NextToken
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order
from isoloss.measurements.replaced_weights import replacement_of
from isoloss.measurements.sampled_batches import SampledBatches
from isoloss.progress import Progress
from isoloss.results.record import Setting


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
            read = subject.source.prediction if isinstance(subject.source, SampledBatches) else None
            objective = read.name if isinstance(read, MaskedTokens | NextToken) else None
            prediction = prediction_of(self.towards, objective)
            first = next(iter(trainable_parameters(model).values()))
            other = load_predicting(self.towards, prediction, first.dtype)
            direction = differences(model, replacement_of(model, subject.checkpoint, other, self.towards))
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
