"""The trace of the Hessian of a checkpoint, by the Fisher information (B.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from transformers import PreTrainedModel

from isoloss.checked_tensors import Tensors
from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.experiments.quantities.corpus_loss import validation_sample
from isoloss.experiments.quantity import Columns, Subject, drawn_of, tensors_of
from isoloss.languages.language import Language
from isoloss.measurements.flatness_records import (
    FlatnessSet,
    flatness,
    flatness_records,
    trace_sentence_values,
)
from isoloss.measurements.record import Record
from isoloss.objectives.batch import Batch
from isoloss.objectives.many_masks import once_each
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.progress import Progress


@dataclass(frozen=True)
class TraceQuantity:
    """The trace on `sentences` sentences, whose masks and signs `seed` settles too."""

    revision: ClassVar[int] = 1

    sentences: int
    seed: int

    def draw(
        self,
        language: Language,
        objective: PretrainingObjective,
        progress: Progress,  # noqa: ARG002
    ) -> "TraceSet":
        """See `Quantity`."""
        return TraceSet(FlatnessSet.draw(language, objective, self.sentences, self.seed))

    def draw_from(
        self,
        corpus: PackedCorpus,
        objective: PretrainingObjective,
        progress: Progress,  # noqa: ARG002
    ) -> "TraceSet":
        """See `CorpusQuantity`: validation sequences, with the masks that the model is trained on.

        What several masks give is the mean over them: the trace of the loss that is minimised.
        """
        generator = torch.Generator().manual_seed(self.seed)
        sequences, _ = validation_sample(corpus, self.sentences, generator)
        return TraceSet(FlatnessSet(once_each(objective).draw(sequences, generator), self.seed))

    def restore(
        self,
        tensors: Tensors,
        language: Language | PackedCorpus,  # noqa: ARG002
        objective: PretrainingObjective,  # noqa: ARG002
    ) -> "TraceSet":
        """See `Quantity` and `CorpusQuantity`."""
        drawn = FlatnessSet(drawn_of(Batch, tensors), self.seed)
        return TraceSet(drawn)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: `trace` and its error, and how many parameters it is over."""
        trace = next(record for record in records if record.quantity == "fisher_trace")
        return {
            "trace": trace.value,
            "trace_error": trace.standard_error,
            "trace_sentences": trace.n,
            "parameters": trace.settings["parameters"],
        }


@dataclass(frozen=True)
class TraceSet:
    """See `MeasuringSet`."""

    drawn: FlatnessSet

    def tensors(self) -> Tensors:
        """See `MeasuringSet`."""
        return tensors_of(self.drawn.batch)

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """See `MeasuringSet`."""
        trace = flatness(model, subject.objective, self.drawn, progress=progress)
        subject.sentence_values.update(trace_sentence_values(trace))
        return flatness_records(trace, self.drawn.seed, subject.checkpoint, subject.settings)
