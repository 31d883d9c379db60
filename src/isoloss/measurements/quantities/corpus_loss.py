"""The loss of a checkpoint on real text: of the validation part (A.2), and of what it learns from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedModel

from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.languages.sentences import Sentences
from isoloss.measurements.fixed_sentences import validation_sample
from isoloss.measurements.quantity import Columns, Measurement, Subject, value_and_error
from isoloss.measurements.record import Record
from isoloss.measurements.validation_loss import ValidationLoss, validation_loss
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.progress import Progress


@dataclass(frozen=True)
class SequencesOfDocuments:
    """Sequences of a corpus, and the number of each one's document."""

    documents: Int[Tensor, " n"]
    sequences: Sentences


@dataclass(frozen=True)
class CorpusLossQuantity:
    """The loss on `sequences` validation sequences; `seed` settles which, and what is predicted of them."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (PackedCorpus,)
    drawn_as: ClassVar[type] = SequencesOfDocuments

    sequences: int
    seed: int

    def draw(
        self,
        source: PackedCorpus,
        objective: PretrainingObjective,  # noqa: ARG002  (predictions are drawn when it is measured)
        progress: Progress,  # noqa: ARG002
    ) -> SequencesOfDocuments:
        """See `Quantity`."""
        generator = torch.Generator().manual_seed(self.seed)
        sequences, documents = validation_sample(source, self.sequences, generator)
        return SequencesOfDocuments(documents, sequences)

    def measure(
        self,
        model: PreTrainedModel,
        drawn: SequencesOfDocuments,
        subject: Subject[PackedCorpus],
        progress: Progress,
    ) -> Measurement:
        """See `ValidationLoss.records`."""
        found = _loss(model, drawn, self.seed, subject, progress)
        return Measurement(found.records(subject.checkpoint, dict(subject.settings)), found.sentence_values())

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: `loss` in nats, its error over documents, and how many documents."""
        loss = records[0]
        return value_and_error("loss", loss) | {"loss_sentences": loss.n}


@dataclass(frozen=True)
class TrainingLossQuantity:
    """The loss on `sequences` sequences of the training part, dropout off, as `CorpusLossQuantity` has it."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (PackedCorpus,)
    drawn_as: ClassVar[type] = SequencesOfDocuments

    sequences: int
    seed: int

    def draw(
        self,
        source: PackedCorpus,
        objective: PretrainingObjective,  # noqa: ARG002
        progress: Progress,  # noqa: ARG002
    ) -> SequencesOfDocuments:
        """See `Quantity`: each sequence counts as a document, of which the part has many more."""
        sequences = source.sample(self.sequences, torch.Generator().manual_seed(self.seed))
        return SequencesOfDocuments(torch.arange(len(sequences)), sequences)

    def measure(
        self,
        model: PreTrainedModel,
        drawn: SequencesOfDocuments,
        subject: Subject[PackedCorpus],
        progress: Progress,
    ) -> Measurement:
        """`training_loss`, whose sentences are told apart by no other measurement."""
        found = _loss(model, drawn, self.seed, subject, progress)
        loss, _ = found.records(subject.checkpoint, dict(subject.settings))
        return Measurement([replace(loss, quantity="training_loss")])

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: `training_loss` in nats and its error."""
        return value_and_error("training_loss", records[0])


def _loss(
    model: PreTrainedModel,
    drawn: SequencesOfDocuments,
    seed: int,
    subject: Subject[PackedCorpus],
    progress: Progress,
) -> ValidationLoss:
    """Of the words that the model's own objective predicts, the same for all."""
    objective = subject.objective
    assert isinstance(objective, PretrainingObjective)  # what trains on a corpus chooses what is predicted
    return validation_loss(
        model, drawn.sequences, drawn.documents, seed, objective=objective, progress=progress
    )
