"""The loss of a checkpoint on real text: on the validation split (A.2), and on the training split."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order
from isoloss.objectives.batch import PretrainingObjective
from isoloss.objectives.evaluation import REAL_TEXT_MEMORY_BYTES, device_of, evaluation_mode, rows_at_once
from isoloss.objectives.masked import ManyMasksObjective, once_each
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, cluster_values, mean_over_members
from isoloss.seeds import derived_seed

SEQUENCES_MASKED_AT_ONCE = 64

FIFTEEN_PER_CENT = ManyMasksObjective()


@dataclass(frozen=True)
class ValidationLoss:
    """One model's loss on d documents, which are the independent units, in nats, float64.

    `means[i]` is the mean over document i's predicted tokens, `predictions[i]` their number. Two models
    measured with the same seed are compared by `paired_difference` of their `document_values`.
    """

    means: Float[Tensor, " d"]
    predictions: Int[Tensor, " d"]

    @property
    def estimate(self) -> Estimate:
        """Mean over all predicted tokens, with the standard error of a ratio over documents."""
        return mean_over_members(self.means, self.predictions)

    @property
    def document_values(self) -> Float[Tensor, " d"]:
        """Per-document values, whose mean is the loss and whose s / √d is its error; see `cluster_values`."""
        return cluster_values(self.means, self.predictions)


def validation_loss(
    model: nn.Module,
    sentences: Sentences,
    documents: Int[Tensor, " n"],
    seed: int,
    *,
    objective: PretrainingObjective = FIFTEEN_PER_CENT,
    memory_bytes: int = REAL_TEXT_MEMORY_BYTES,
    progress: Progress = silent,
) -> ValidationLoss:
    """L = Σ -log f(target) / (number of predictions), over n sequences; sequence i is from `documents[i]`.

    Every predicted token has equal weight, whereas training first averages within a sequence. `objective`
    draws the predictions of each sequence (`once_each`), the same for every model. Dropout is off; the model
    is left as found. `memory_bytes` bounds a forward pass, of at least one sequence. Raises
    BadInput if documents and sequences do not match, and if a score is not finite.

    >>> from isoloss.models.transformers import laptop_shape, PreLayerNormTransformer
    >>> model = PreLayerNormTransformer(laptop_shape(16)).build(words=5, maximum_length=3, seed=0)
    >>> sentences = Sentences.from_lists([[0, 1, 2], [3, 4], [1, 1, 1]])
    >>> loss = validation_loss(model, sentences, torch.tensor([0, 0, 7]), seed=0)
    >>> loss.estimate.n, loss.predictions.tolist()
    (2, [2, 1])
    """
    if len(documents) != len(sentences):
        raise BadInput(
            f"{len(sentences)} sequences and {len(documents)} documents do not match; give the document of "
            "each sequence"
        )
    objective = once_each(objective)
    _, owners = torch.unique(documents, return_inverse=True)
    total = torch.zeros(int(owners.max()) + 1 if len(owners) else 0, dtype=torch.float64)
    counts = torch.zeros(len(total), dtype=torch.int64)
    at_once = rows_at_once(model, sentences.ids.shape[1] + 1, memory_bytes)
    device, done = device_of(model), 0
    with evaluation_mode(model), torch.inference_mode():
        for start in range(0, len(sentences), SEQUENCES_MASKED_AT_ONCE):
            # A separate seed for each piece, so that how the model is read does not change any mask.
            generator = torch.Generator().manual_seed(derived_seed(seed, "masks 0", start))
            masked = objective.draw(sentences[start : start + SEQUENCES_MASKED_AT_ONCE], generator)
            for first in range(0, len(masked), at_once):
                batch = masked.part(first, first + at_once)
                logits = objective.logits(model, batch.to(device)).cpu().double()
                losses = nn.functional.cross_entropy(logits, batch.targets, reduction="none")
                held = owners[start + first + batch.rows]
                total.index_add_(0, held, losses)
                counts.index_add_(0, held, torch.ones_like(held))
            done += len(masked)
            progress("validation loss", done, len(sentences))
    if not bool(total.isfinite().all()):
        raise BadInput(
            "the model's scores are not finite; its weights have diverged: measure an earlier checkpoint"
        )
    return ValidationLoss(total / counts, counts)


@dataclass(frozen=True)
class SequencesOfDocuments:
    """Sequences of a corpus, and the index of each one's document."""

    documents: Int[Tensor, " n"]
    sequences: Sentences


@dataclass(frozen=True)
class CorpusLossQuantity:
    """The loss on `sequences` validation sequences; `seed` determines which, and their predictions."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (PackedCorpus,)
    drawn_as: ClassVar[type] = SequencesOfDocuments
    column_names, columns = columns_in_order("loss", n="loss_sentences")

    sequences: int
    seed: int

    def draw(
        self, source: PackedCorpus, objective: PretrainingObjective, progress: Progress
    ) -> SequencesOfDocuments:
        generator = torch.Generator().manual_seed(self.seed)
        sequences, documents = source.validation_sample(self.sequences, generator)
        return SequencesOfDocuments(documents, sequences)

    def measure(
        self,
        model: PreTrainedModel,
        drawn: SequencesOfDocuments,
        subject: Subject[PackedCorpus],
        progress: Progress,
    ) -> Measurement:
        found = _loss(model, drawn, self.seed, subject, progress)
        values = found.document_values
        return subject.measurement("validation_loss", found.estimate, "nats", self.seed, values=values)


@dataclass(frozen=True)
class TrainingLossQuantity:
    """The loss on `sequences` training sequences, without dropout, measured as in `CorpusLossQuantity`."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (PackedCorpus,)
    drawn_as: ClassVar[type] = SequencesOfDocuments
    column_names, columns = columns_in_order("training_loss")

    sequences: int
    seed: int

    def draw(
        self, source: PackedCorpus, objective: PretrainingObjective, progress: Progress
    ) -> SequencesOfDocuments:
        """See `Quantity`: each sequence counts as its own document, as the split has many more documents."""
        sequences = source.sample(self.sequences, torch.Generator().manual_seed(self.seed))
        return SequencesOfDocuments(torch.arange(len(sequences)), sequences)

    def measure(
        self,
        model: PreTrainedModel,
        drawn: SequencesOfDocuments,
        subject: Subject[PackedCorpus],
        progress: Progress,
    ) -> Measurement:
        """`training_loss`; no other measurement uses its per-sentence values."""
        found = _loss(model, drawn, self.seed, subject, progress)
        return subject.measurement("training_loss", found.estimate, "nats", self.seed)


def _loss(
    model: PreTrainedModel,
    drawn: SequencesOfDocuments,
    seed: int,
    subject: Subject[PackedCorpus],
    progress: Progress,
) -> ValidationLoss:
    objective = subject.objective
    assert isinstance(objective, PretrainingObjective)  # what trains on a corpus chooses what is predicted
    return validation_loss(
        model, drawn.sequences, drawn.documents, seed, objective=objective, progress=progress
    )
