"""The loss of a checkpoint on real text: of the validation part (A.2), and of what it learns from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedModel

from isoloss.checked_tensors import Tensors
from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.experiments.quantity import Columns, Subject, below, drawn_of, within
from isoloss.languages.sentences import Sentences
from isoloss.measurements.record import Record
from isoloss.measurements.validation_loss import validation_loss
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.progress import Progress


@dataclass(frozen=True)
class CorpusLossQuantity:
    """The loss on `sequences` validation sequences; `seed` settles which, and what is predicted of them."""

    revision: ClassVar[int] = 1

    sequences: int
    seed: int

    def draw_from(
        self,
        corpus: PackedCorpus,
        objective: PretrainingObjective,  # noqa: ARG002  (predictions are drawn when it is measured)
        progress: Progress,  # noqa: ARG002
    ) -> "CorpusLossSet":
        """See `CorpusQuantity`."""
        generator = torch.Generator().manual_seed(self.seed)
        sequences, documents = validation_sample(corpus, self.sequences, generator)
        return CorpusLossSet(sequences, documents, self.seed)

    def restore(
        self,
        tensors: Tensors,
        language: PackedCorpus,  # noqa: ARG002
        objective: PretrainingObjective,  # noqa: ARG002
    ) -> "CorpusLossSet":
        """See `CorpusQuantity`."""
        sequences = drawn_of(Sentences, within("sequences", tensors))
        return CorpusLossSet(sequences, tensors["documents"], self.seed)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: `loss` in nats, its error over documents, and how many documents."""
        loss = next(record for record in records if record.quantity == "validation_loss")
        return {"loss": loss.value, "loss_error": loss.standard_error, "loss_sentences": loss.n}


@dataclass(frozen=True)
class TrainingLossQuantity:
    """The loss on `sequences` sequences of the training part, dropout off, as `CorpusLossQuantity` has it."""

    revision: ClassVar[int] = 1

    sequences: int
    seed: int

    def draw_from(
        self,
        corpus: PackedCorpus,
        objective: PretrainingObjective,  # noqa: ARG002
        progress: Progress,  # noqa: ARG002
    ) -> "TrainingLossSet":
        """See `CorpusQuantity`: each sequence counts as a document, of which the part has many more."""
        sequences = corpus.sample(self.sequences, torch.Generator().manual_seed(self.seed))
        return TrainingLossSet(CorpusLossSet(sequences, torch.arange(len(sequences)), self.seed))

    def restore(
        self,
        tensors: Tensors,
        language: PackedCorpus,  # noqa: ARG002
        objective: PretrainingObjective,  # noqa: ARG002
    ) -> "TrainingLossSet":
        """See `CorpusQuantity`."""
        sequences = drawn_of(Sentences, within("sequences", tensors))
        return TrainingLossSet(CorpusLossSet(sequences, tensors["documents"], self.seed))

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: `training_loss` in nats and its error."""
        (loss,) = records
        return {"training_loss": loss.value, "training_loss_error": loss.standard_error}


@dataclass(frozen=True)
class CorpusLossSet:
    """See `MeasuringSet`."""

    sequences: Sentences
    documents: Int[Tensor, " n"]
    seed: int

    def tensors(self) -> Tensors:
        """See `MeasuringSet`."""
        return {"documents": self.documents, **below("sequences", self.sequences)}

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """See `MeasuringSet`: of the words that the model's own objective predicts, the same for all."""
        found = validation_loss(
            model, self.sequences, self.documents, self.seed, objective=subject.objective, progress=progress
        )
        subject.sentence_values.update(found.sentence_values())
        return found.records(subject.checkpoint, dict(subject.settings))


@dataclass(frozen=True)
class TrainingLossSet:
    """See `MeasuringSet`."""

    of: CorpusLossSet

    def tensors(self) -> Tensors:
        """See `MeasuringSet`."""
        return self.of.tensors()

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """See `MeasuringSet`."""
        records = self.of.measure(model, replace(subject, sentence_values={}), progress)
        return [
            replace(record, quantity="training_loss")
            for record in records
            if record.quantity == "validation_loss"
        ]


def validation_sample(
    corpus: PackedCorpus, n: int, generator: torch.Generator
) -> tuple[Sentences, Int[Tensor, " n"]]:
    """n sequences drawn without replacement, all where there are no more; and each one's document."""
    sequences, documents = corpus.validation_sequences(), corpus.validation_documents()
    chosen = torch.randperm(len(sequences), generator=generator)[:n].sort().values
    return sequences[chosen], documents[chosen]
