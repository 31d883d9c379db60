"""Batches of predictions, and the interfaces of objectives for flatness, pre-training and the exact loss."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from isoloss.errors import BadInput

if TYPE_CHECKING:  # batches of a text have no language
    from isoloss.languages.language import Language
    from isoloss.languages.sentences import Sentences


@dataclass(frozen=True)
class Batch:
    """Inputs for a model and the m words it has to predict.

    `input_ids` and `attention_mask` cover n sentences of S tokens; prediction j is for the token at
    `positions[j]` of row `rows[j]`, with true value `targets[j]`. Rows are sorted, and every row has at least
    one prediction. `soft_targets`, where there are any, are the probabilities of the first k tokens that a
    model is trained on instead of the targets (`SoftLabels`). `decoder_ids`, for a model with an encoder and
    a decoder, is what the decoder reads, which the positions are then of; both are equally wide where there
    are several sentences.
    `token_types`, of pairs of texts, says which of the two a token is of, to models that read that.
    """

    input_ids: Int[Tensor, "n S"]
    attention_mask: Bool[Tensor, "n S"]
    rows: Int[Tensor, " m"]
    positions: Int[Tensor, " m"]
    targets: Int[Tensor, " m"]
    soft_targets: Float[Tensor, "m k"] | None = None
    decoder_ids: Int[Tensor, "n R"] | None = None
    token_types: Int[Tensor, "n S"] | None = None

    def __len__(self) -> int:
        return self.input_ids.shape[0]

    def lengths(self) -> list[Int[Tensor, " n"]]:
        """How many tokens each sentence has, and what a decoder reads for it."""
        of_sentences = self.attention_mask.sum(dim=1)
        return [of_sentences] if self.decoder_ids is None else [of_sentences, torch.bincount(self.rows)]

    def per_sentence(self, change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        """`change` of every array with a row for each sentence, by name."""
        named = ("input_ids", "attention_mask", "decoder_ids", "token_types")
        return {name: change(array) for name in named if (array := getattr(self, name)) is not None}

    def changed(
        self, of_sentences: Callable[[Tensor], Tensor], of_predictions: Callable[[Tensor], Tensor]
    ) -> "Batch":
        """One change of every array with a row for each sentence, another of those of the predictions."""
        return Batch(
            **self.per_sentence(of_sentences),
            rows=of_predictions(self.rows),
            positions=of_predictions(self.positions),
            targets=of_predictions(self.targets),
            soft_targets=None if self.soft_targets is None else of_predictions(self.soft_targets),
        )

    def part(self, start: int, stop: int) -> "Batch":
        """Sentences `start` to `stop - 1` and their predictions."""
        bounds = torch.tensor([start, stop], device=self.rows.device)
        first, after = torch.searchsorted(self.rows.contiguous(), bounds).tolist()
        part = self.changed(lambda array: array[start:stop], lambda array: array[first:after])
        return replace(part, rows=part.rows - start)

    def to(self, device: torch.device) -> "Batch":
        """The same batch on `device`; returned as is if it is there already.

        The copy onto a GPU is not waited for, so that the next batch can be drawn meanwhile.
        """
        if self.input_ids.device == device:
            return self

        def copied(array: Tensor) -> Tensor:
            if device.type != "cuda" or not array.is_cpu:
                return array.to(device)
            # From memory that is not pinned, a copy waits for all the work that the GPU was given before.
            return array.pin_memory().to(device, non_blocking=True)

        return self.changed(copied, copied)

    def narrowed(self) -> "Batch":
        """Without positions that are padding in all sentences; views if possible.

        A lone sentence and what a decoder reads for it are cut off each at its own end.
        """
        present = self.attention_mask.any(0)
        width = int(present.nonzero().max()) + 1 if present.any() else 0
        if self.decoder_ids is None:
            return self.up_to(width)
        read = int(self.positions.max()) + 1
        if len(self) == 1:
            return replace(self.up_to(width), decoder_ids=self.decoder_ids[:, :read])
        return self.up_to(max(width, read))

    def up_to(self, width: int) -> "Batch":
        """The first `width` positions of every sentence."""
        return replace(self, **self.per_sentence(lambda array: array[:, :width]))


@runtime_checkable
class Objective(Protocol):
    """How predictions are read off a model: `logits[j]` scores the vocabulary for prediction j."""

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """Unnormalised log-probabilities of the batch's m predictions over the model's v tokens."""
        ...


@runtime_checkable
class ScoresBatches(Protocol):
    """A model that computes the scores of a batch's predictions itself, such as a lookup table."""

    def logits(self, batch: Batch) -> Float[Tensor, "m v"]:
        """See `Objective.logits`."""
        ...


def sentence_averaged_loss(logits: Float[Tensor, "m v"], batch: Batch) -> Float[Tensor, ""]:
    """Mean over sentences of the mean over each one's predictions of -log f(target), in nats.

    With soft targets p, of -Σ_w p_w log f_w instead.
    """
    if batch.soft_targets is not None:
        tokens = batch.soft_targets.shape[1]
        log_model = logits.log_softmax(-1)[:, :tokens]
        return sentence_average(-(log_model * batch.soft_targets.to(logits.dtype)).sum(-1), batch)
    if _one_each(batch):
        return nn.functional.cross_entropy(logits, batch.targets)
    return sentence_average(nn.functional.cross_entropy(logits, batch.targets, reduction="none"), batch)


def soft_target_entropy(batch: Batch) -> Float[Tensor, ""]:
    """What `sentence_averaged_loss` of soft targets p is for a model that is p itself: E[-Σ_w p_w log p_w].

    Raises BadInput for a batch without soft targets.

    >>> ids, place = torch.tensor([[1, 5]]), torch.tensor([0])
    >>> batch = Batch(ids, ids > 0, place, place, place, soft_targets=torch.tensor([[0.5, 0.5]]))
    >>> round(float(soft_target_entropy(batch)), 4)
    0.6931
    """
    if batch.soft_targets is None:
        raise BadInput("a batch of drawn words does not tell their entropy; train on soft labels")
    return sentence_average(torch.special.entr(batch.soft_targets).sum(-1), batch)


def _one_each(batch: Batch) -> bool:
    """Whether every sentence has one prediction, so that the means over both are the same."""
    return len(batch.rows) == len(batch)


def sentence_average(values: Float[Tensor, " m"], batch: Batch) -> Float[Tensor, ""]:
    """Mean over sentences of the mean of `values` over each one's predictions."""
    if _one_each(batch):
        return values.mean()
    # Not by `bincount`, which waits for a GPU to know how many there are.
    counts = torch.zeros_like(batch.input_ids[:, 0]).index_add_(0, batch.rows, torch.ones_like(batch.rows))
    counts = counts.to(values.dtype)
    return (values / counts[batch.rows]).sum() / len(batch)


def sentence_means(values: Float[Tensor, " m"], batch: Batch) -> Float[Tensor, " n"]:
    """The mean of `values` over each sentence's predictions."""
    sums = values.new_zeros(len(batch)).index_add(0, batch.rows, values)
    return sums / torch.bincount(batch.rows, minlength=len(batch))


def sentences_between(batch: Batch, start: int, stop: int) -> Batch:
    """Sentences start..stop-1, without positions that are padding in all of them; views if possible.

    >>> import torch
    >>> ids = torch.tensor([[1, 5, 2], [1, 2, 0]])
    >>> rows, positions = torch.tensor([0, 0, 1]), torch.tensor([1, 2, 1])
    >>> whole = Batch(ids, ids != 0, rows, positions, targets=torch.tensor([5, 6, 7]))
    >>> part = sentences_between(whole, 1, 2)
    >>> part.input_ids.tolist(), part.rows.tolist(), part.targets.tolist()
    ([[1, 2]], [0], [7])
    """
    return batch.part(start, stop).narrowed()


def split_sentences(batch: Batch, parts: int) -> list[Batch]:
    """The batch, split into `parts` consecutive parts with nearly equal numbers of sentences.

    >>> import torch
    >>> ids, every = torch.ones(5, 1, dtype=torch.int64), torch.arange(5)
    >>> [len(part) for part in split_sentences(Batch(ids, ids > 0, every, 0 * every, every), 2)]
    [2, 3]
    """
    edges = [len(batch) * i // parts for i in range(parts + 1)]
    return [sentences_between(batch, start, stop) for start, stop in itertools.pairwise(edges)]


def sentences_of(batch: Batch, sentences: Int[Tensor, " k"]) -> Batch:
    """The sentences with these ascending indices, without positions after all of their words.

    >>> ids = torch.tensor([[5, 6], [7, 0]])
    >>> first = torch.zeros(2, dtype=torch.long)
    >>> alone = sentences_of(Batch(ids, ids > 0, torch.tensor([0, 1]), first, first), torch.tensor([1]))
    >>> alone.input_ids.tolist(), alone.rows.tolist()
    ([[7]], [0])
    """
    number = torch.full((len(batch),), -1, device=batch.rows.device)
    number[sentences] = torch.arange(len(sentences), device=batch.rows.device)
    kept = number[batch.rows] >= 0
    chosen = batch.changed(lambda array: array[sentences], lambda array: array[kept])
    return replace(chosen, rows=number[chosen.rows]).narrowed()


@runtime_checkable
class PretrainingObjective(Objective, Protocol):
    """An objective that also chooses the predictions for new sentences.

    A frozen dataclass of numbers, strings and such dataclasses: part of a run's digest.
    """

    def draw(self, sentences: "Sentences", generator: torch.Generator) -> Batch:
        """The predictions that these sentences are trained on; row i of the batch is sentence i.

        The exception is `ManyMasksObjective` with copies: measure with its `once_each`.
        """
        ...


@runtime_checkable
class ExactObjective(Objective, Protocol):
    """An objective all of whose predictions have an exact distribution in every language.

    Random choices for a sentence are determined by its index among those measured: `first` is the index of
    the first sentence passed.
    """

    @property
    def quantity(self) -> str:
        """The prefix of the names of its records."""
        ...

    def every_prediction(self, sentences: "Sentences", first: int = 0) -> Batch:
        """Each sentence's predictions, ordered by sentence and then position, in as many rows as needed."""
        ...

    def predictions(self, sentences: "Sentences") -> Int[Tensor, " n"]:
        """How many predictions each sentence has."""
        ...

    def log_probabilities(
        self, language: "Language", sentences: "Sentences", first: int = 0
    ) -> Float[Tensor, "m k"]:
        """Exact log-probabilities of each prediction's k outcomes, in the same order, in nats, float64."""
        ...

    def outcomes(self, scores: Float[Tensor, "m v"]) -> Float[Tensor, "m k"]:
        """The tokens, among a model's v, that represent the k outcomes, in the distribution's order."""
        ...


class NonFiniteScores(BadInput):
    """A model's scores are NaN or infinite; `sentence` is the number of the first such sentence, from 1.

    `model` is the model's name, if the caller measures several and has set it.
    """

    model: str = ""

    def __init__(self, sentence: int, called: str) -> None:
        self.sentence = sentence
        super().__init__(
            f"the model's scores for {called} are not finite; its weights have diverged, or the precision "
            "is too low: measure an earlier checkpoint, or in float32"
        )


def refuse_non_finite(logits: Float[Tensor, "m v"], batch: Batch, first_sentence: int) -> None:
    """Raise NonFiniteScores naming the first sentence, counted from 1, with a NaN or infinite logit."""
    # A sum is not finite if any of its terms is not, and takes only one pass over them.
    sums = logits.sum(dim=1, dtype=torch.promote_types(logits.dtype, torch.float32))
    bad = ~sums.isfinite()
    if bad.any():
        sentence = first_sentence + int(batch.rows[bad][0]) + 1
        raise NonFiniteScores(sentence, f"sentence {sentence}")
