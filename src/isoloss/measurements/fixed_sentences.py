"""Sentences that are the same for all models measured on them, and what is predicted of each."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from isoloss.checked_tensors import Tensors, drawn_of, tensors_of
from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.languages.language import Language, SentenceSource
from isoloss.languages.sentences import Sentences
from isoloss.objectives.batch import Batch
from isoloss.objectives.many_masks import once_each
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.progress import Progress


@dataclass(frozen=True)
class FixedSentences:
    """What is predicted of each sentence: with `MaskedObjective` one word.

    What several masks give is the mean over them: that of the loss which is minimised.
    """

    batches: tuple[Batch, ...]

    @staticmethod
    def draw(
        source: SentenceSource | PackedCorpus, objective: PretrainingObjective, n: int, seed: int
    ) -> "FixedSentences":
        """Draw n sentences and what the objective predicts of them, each taken once (`once_each`).

        Of a corpus they are validation sequences.
        """
        generator = torch.Generator().manual_seed(seed)
        if isinstance(source, PackedCorpus):
            sentences, _ = validation_sample(source, n, generator)
        else:
            sentences = source.sample(n, generator)
        return FixedSentences((once_each(objective).draw(sentences, generator),))

    def tensors(self) -> Tensors:
        """Those of the one batch that was drawn."""
        (batch,) = self.batches
        return tensors_of(batch)

    @staticmethod
    def of_tensors(tensors: Tensors) -> "FixedSentences":
        """What `tensors` took apart."""
        return FixedSentences((drawn_of(Batch, tensors),))


@runtime_checkable
class OnSentences(Protocol):
    """The settings of a quantity of fixed sentences."""

    @property
    def sentences(self) -> int:
        """How many are drawn."""
        ...

    @property
    def seed(self) -> int:
        """Settles which, and all else that is random."""
        ...


def draw_sentences(
    quantity: OnSentences,
    source: Language | PackedCorpus,
    objective: PretrainingObjective,
    progress: Progress,  # noqa: ARG001
) -> FixedSentences:
    """`Quantity.draw` of one on `sentences` sentences that `seed` settles."""
    return FixedSentences.draw(source, objective, quantity.sentences, quantity.seed)


def validation_sample(
    corpus: PackedCorpus, n: int, generator: torch.Generator
) -> tuple[Sentences, Int[Tensor, " n"]]:
    """n sequences drawn without replacement, all where there are no more; and each one's document."""
    sequences, documents = corpus.validation_sequences(), corpus.validation_documents()
    chosen = torch.randperm(len(sequences), generator=generator)[:n].sort().values
    return sequences[chosen], documents[chosen]
