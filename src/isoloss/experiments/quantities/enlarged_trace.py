"""The trace of a checkpoint viewed as a point of a larger architecture (B.4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from transformers import PreTrainedModel

from isoloss.checked_tensors import Tensors
from isoloss.experiments.quantity import Columns, Subject, drawn_of, tensors_of
from isoloss.languages.language import Language
from isoloss.measurements.flatness_records import (
    FlatnessSet,
    flatness,
    flatness_records,
    trace_sentence_values,
)
from isoloss.measurements.record import Record
from isoloss.models.enlarging.transformer import enlarged, enlargement_between, exact_form, paper_form
from isoloss.models.shapes import Shape
from isoloss.objectives.batch import Batch
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.progress import Progress

FormName = Literal["exact", "paper"]
FORMS = {"exact": exact_form, "paper": paper_form}


@dataclass(frozen=True)
class EnlargedTraceQuantity:
    """The trace of the model enlarged to `common` by a form, on `sentences` sentences.

    "paper" is B.4 to the letter, "exact" leaves what the model computes as it is; with tied embeddings they
    weigh the embeddings' part of the trace by k and by 1/k, k the factor of the width (docs/enlarging.md).
    """

    revision: ClassVar[int] = 1

    common: Shape
    form: FormName
    sentences: int
    seed: int

    def draw(
        self,
        language: Language,
        objective: PretrainingObjective,
        progress: Progress,  # noqa: ARG002
    ) -> "EnlargedTraceSet":
        """See `Quantity`."""
        drawn = FlatnessSet.draw(language, objective, self.sentences, self.seed)
        return EnlargedTraceSet(self.common, self.form, drawn)

    def restore(
        self,
        tensors: Tensors,
        language: Language,  # noqa: ARG002
        objective: PretrainingObjective,  # noqa: ARG002
    ) -> "EnlargedTraceSet":
        """See `Quantity`."""
        drawn = FlatnessSet(drawn_of(Batch, tensors), self.seed)
        return EnlargedTraceSet(self.common, self.form, drawn)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: `trace_exact` or `trace_paper`, and its error."""
        trace, column = next(r for r in records if r.quantity == "fisher_trace"), f"trace_{self.form}"
        return {
            column: trace.value,
            f"{column}_error": trace.standard_error,
            f"{column}_sentences": trace.n,
        }


@dataclass(frozen=True)
class EnlargedTraceSet:
    """See `MeasuringSet`."""

    common: Shape
    form: FormName
    drawn: FlatnessSet

    def tensors(self) -> Tensors:
        """See `MeasuringSet`."""
        return tensors_of(self.drawn.batch)

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """See `MeasuringSet`; beside the model stands the enlarged one."""
        config = model.config
        heads, layers = config.num_attention_heads, config.num_hidden_layers
        shape = Shape(config.hidden_size, heads, layers, config.intermediate_size)
        large = enlarged(model, enlargement_between(shape, self.common), FORMS[self.form])
        trace = flatness(large, subject.objective, self.drawn, progress=progress)
        subject.sentence_values.update(trace_sentence_values(trace))
        settings = {**subject.settings, "enlarged_to": self.common.width, "form": self.form}
        return flatness_records(trace, self.drawn.seed, subject.checkpoint, settings)
