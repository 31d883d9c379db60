"""The validation loss on real text: nats per predicted token, its error bar over documents (A.2)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.estimate import Estimate, cluster_values, mean_over_members
from isoloss.languages.sentences import Sentences
from isoloss.measurements.record import Record, Setting
from isoloss.objectives.batch import Batch
from isoloss.objectives.evaluation_mode import (
    REAL_TEXT_MEMORY_BYTES,
    device_of,
    evaluation_mode,
    rows_at_once,
)
from isoloss.objectives.many_masks import ManyMasksObjective, once_each
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.pretraining.seeds import derived_seed
from isoloss.progress import Progress, silent

SEQUENCES_MASKED_AT_ONCE = 64

FIFTEEN_PER_CENT = ManyMasksObjective()


@dataclass(frozen=True)
class ValidationLoss:
    """One model's loss on d documents, in nats, float64.

    `means[i]` is the mean over document i's predicted tokens, `predictions[i]` how many these are. Tokens of
    one document are alike, so documents are the independent units. Two models that were measured with one
    seed are compared by `paired_difference` of their `document_values`.
    """

    means: Float[Tensor, " d"]
    predictions: Int[Tensor, " d"]
    seed: int

    @property
    def estimate(self) -> Estimate:
        """Mean over all predicted tokens; the standard error is that of a ratio over documents."""
        return mean_over_members(self.means, self.predictions)

    @property
    def document_values(self) -> Float[Tensor, " d"]:
        """A value a document, whose mean is the loss, and s / √d its error; see `cluster_values`."""
        return cluster_values(self.means, self.predictions)

    def sentence_values(self) -> dict[str, Float[Tensor, " d"]]:
        """Of the loss among the `records` its value a document."""
        return {"validation_loss": self.document_values}

    def records(self, checkpoint: str, settings: dict[str, Setting]) -> list[Record]:
        """`validation_loss`, and `perplexity` exp(loss) with the error that follows; n counts documents."""
        loss = self.estimate
        perplexity = math.exp(loss.value)
        return [
            Record(name, value, unit, error, loss.n, self.seed, checkpoint, dict(settings))
            for name, value, unit, error in (
                ("validation_loss", loss.value, "nats", loss.standard_error),
                ("perplexity", perplexity, "tokens", perplexity * loss.standard_error),
            )
        ]


def validation_loss(
    model: nn.Module,
    sentences: Sentences,
    documents: Int[Tensor, " n"],
    seed: int,
    *,
    objective: PretrainingObjective = FIFTEEN_PER_CENT,
    draws: int = 1,
    memory_bytes: int = REAL_TEXT_MEMORY_BYTES,
    progress: Progress = silent,
) -> ValidationLoss:
    """L = Σ -log f(target) / (number of predictions), over n sequences; `documents[i]` is sequence i's.

    Token-averaged: every predicted token weighs the same, where training averages within a sequence first.
    What is predicted is drawn by `objective` from `seed` and a sequence's place, alike for every
    model, once for each sequence (`once_each`); `draws` times afresh, to lessen the chance in it. Dropout is
    off; the model is left as found, on its device. `memory_bytes` bounds a forward pass, at least one
    sequence's.

    Raises BadInput where documents and sequences do not match, and where a score is not finite.

    >>> from isoloss.models.shapes import laptop_shape
    >>> from isoloss.models.transformers import PreLayerNormTransformer
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
        for start, masked in _masked(sentences, objective, seed, draws):
            for first in range(0, len(masked), at_once):
                batch = masked.part(first, first + at_once)
                logits = objective.logits(model, batch.to(device)).cpu().double()
                losses = nn.functional.cross_entropy(logits, batch.targets, reduction="none")
                held = owners[start + first + batch.rows]
                total.index_add_(0, held, losses)
                counts.index_add_(0, held, torch.ones_like(held))
            done += len(masked)
            progress("validation loss", done, draws * len(sentences))
    if not bool(total.isfinite().all()):
        raise BadInput(
            "the model's scores are not finite; its weights have diverged: measure an earlier checkpoint"
        )
    return ValidationLoss(total / counts, counts, seed)


def _masked(
    sentences: Sentences, objective: PretrainingObjective, seed: int, draws: int
) -> Iterator[tuple[int, Batch]]:
    """Each piece of the sequences with its predictions, and the number of its first sequence."""
    for draw in range(draws):
        for start in range(0, len(sentences), SEQUENCES_MASKED_AT_ONCE):
            # A seed of its own for each piece, so that how the model is read changes no mask.
            generator = torch.Generator().manual_seed(derived_seed(seed, f"masks {draw}", start))
            yield start, objective.draw(sentences[start : start + SEQUENCES_MASKED_AT_ONCE], generator)
