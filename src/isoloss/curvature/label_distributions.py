"""Label distributions of a loss, the data's labels or a language's exact distribution, and random draws."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective

LabelDistribution = Callable[[Batch], Tensor]
"""The probabilities [m, v] of each prediction's true labels; see `data_labels` for the data's own."""


def data_labels(batch: Batch, vocabulary: int) -> Float[Tensor, "m v"]:
    """The distribution that puts all probability on the data's label."""
    return nn.functional.one_hot(batch.targets, vocabulary).double()


def distribution_over(distribution: LabelDistribution, batch: Batch, vocabulary: int) -> Float[Tensor, "m v"]:
    """Probabilities over a model's `vocabulary`, with 0 for tokens beyond the language's own."""
    known = distribution(batch)
    return nn.functional.pad(known, (0, vocabulary - known.shape[1]))


def sentence_weights(batch: Batch) -> Float[Tensor, " m"]:
    """1 / (n M_i) for each prediction of sentence i: the weights of the sentence-averaged loss."""
    counts = torch.bincount(batch.rows, minlength=len(batch))
    return 1 / (len(batch) * counts[batch.rows].double())


def mean_loss(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    first_sentence: int,
    distribution: LabelDistribution | None,
) -> Float[Tensor, ""]:
    """The batch's sentence-averaged cross entropy in nats, under the data's labels or under `distribution`.

    Raises BadInput where a logit is not finite, naming the sentence.
    """
    logits = objective.logits(model, batch)
    refuse_non_finite(logits.detach(), batch, first_sentence)
    targets = (
        batch.targets
        if distribution is None
        else distribution_over(distribution, batch, logits.shape[1]).to(logits)
    )
    losses = nn.functional.cross_entropy(logits, targets, reduction="none")
    return (losses * sentence_weights(batch).to(losses)).sum()


def label_surprise(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    first_sentence: int,
    distribution: LabelDistribution | None,
) -> Float[Tensor, ""]:
    """Σ_j w_j Σ_k (p_jk - q_jk) z_jk with p and q held constant: its Hessian is the loss's less the Fisher's.

    z are the logits, p their softmax, q the labels' distribution, w `sentence_weights`. By the chain rule
    ∇²L = Σ_j w_j [J_jᵀ (diag p_j - p_j p_jᵀ) J_j + Σ_k (p_jk - q_jk) ∇²z_jk], and the first term, the
    Gauss-Newton matrix, is the Fisher information whatever the labels are.

    Raises BadInput where a logit is not finite, naming the sentence.
    """
    logits = objective.logits(model, batch)
    scores = logits.detach()
    refuse_non_finite(scores, batch, first_sentence)
    q = (
        data_labels(batch, scores.shape[1])
        if distribution is None
        else distribution_over(distribution, batch, scores.shape[1])
    )
    coefficients = (scores.double().softmax(dim=1) - q.to(scores.device)) * sentence_weights(batch)[:, None]
    return (coefficients.to(logits) * logits).sum()


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


@dataclass(frozen=True)
class Directions:
    """A vector c_j for each of the m predictions; the quantity measured is ||∇_θ Σ_j c_j · logits_j||².

    If the c_j are random, independent and of mean zero, `mean_squares` holds E |c_j|². Terms of the norm
    whose expectation has a closed form are then replaced by it, which removes their sampling noise: for the
    output layer's matrix with inputs h_j, Σ_{j,j'} (c_j·c_j')(h_j·h_j') becomes Σ_j E|c_j|² |h_j|². The mean
    over draws is unchanged, but a single sentence's value may be negative.
    """

    cotangents: Float[Tensor, "m v"]
    mean_squares: Float[Tensor, " m"] | None = None

    def at(self, chosen: Bool[Tensor, " m"]) -> "Directions":
        """The directions of a subset of the predictions.

        >>> import torch
        >>> Directions(torch.eye(2)).at(torch.tensor([False, True])).cotangents.tolist()
        [[0.0, 1.0]]
        """
        mean_squares = None if self.mean_squares is None else self.mean_squares[chosen]
        return Directions(self.cotangents[chosen], mean_squares)


NUMBERS_AT_ONCE = 1 << 20
"""How many logits are worked on at once: little memory beside a model's, and enough to keep a GPU busy."""


def sign_bits(
    sentences: Int[Tensor, " n"], predictions: Int[Tensor, " n"], vocabulary: int, seed: int
) -> UInt8[Tensor, "m w"]:
    """A random bit for every word of every prediction, on the CPU: w = ⌈v / 8⌉ bytes of eight words each.

    Sentence i has `predictions[i]` rows, in order, from its own generator, seeded by `seed` and its number
    `sentences[i]`. They do not depend on the other sentences measured, nor on chunking.

    >>> both = sign_bits(torch.tensor([0, 1]), torch.tensor([1, 2]), 20, seed=7)
    >>> both.shape, bool((both[1:] == sign_bits(torch.tensor([1]), torch.tensor([2]), 20, seed=7)).all())
    (torch.Size([3, 3]), True)
    """
    generator = torch.Generator()
    bits = torch.empty(int(predictions.sum()), -(-vocabulary // 8), dtype=torch.uint8)
    rows = torch.split(bits, predictions.tolist())
    for own, sentence in zip(rows, sentences.tolist(), strict=True):
        digest = hashlib.blake2b(f"{seed} {sentence}".encode(), digest_size=8).digest()
        own.random_(generator=generator.manual_seed(int.from_bytes(digest, "big")))
    return bits


def signs_of(bits: UInt8[Tensor, "m w"], vocabulary: int, dtype: torch.dtype) -> Float[Tensor, "m v"]:
    """±1 for each bit, lowest bits first.

    >>> signs_of(torch.tensor([[5]], dtype=torch.uint8), 4, torch.float32).tolist()
    [[1.0, -1.0, 1.0, -1.0]]
    """
    of_byte = (torch.arange(256, device=bits.device)[:, None] >> torch.arange(8, device=bits.device)) & 1
    signs = (2 * of_byte - 1).to(dtype).index_select(0, bits.flatten().int())
    return signs.view(len(bits), -1)[:, :vocabulary]


def fisher_directions(logits: Float[Tensor, "m v"], signs: Float[Tensor, "m v"]) -> Directions:
    """δ = √p ∘ s - p (√p · s) for p = softmax(logits) and signs s; in the logits' precision.

    This combines the columns of diag(√p) - p √pᵀ with random signs: E δ δᵀ = diag(p) - p pᵀ, the covariance
    of onehot(y) - p for a label y drawn from p. Hence ||∇ Σ δ · logits||² has the same mean as ||∇ log
    p_y||², without the heavy tail of rare labels; E |δ|² = 1 - |p|². Computed in at least float32.

    >>> fisher_directions(torch.zeros(1, 2), torch.tensor([[1.0, -1.0]]))
    Directions(cotangents=tensor([[ 0.7071, -0.7071]]), mean_squares=tensor([0.5000], dtype=torch.float64))
    """
    return Directions(*_cotangents_and_mean_squares(logits, signs))


def drawn_directions(logits: Float[Tensor, "m v"], bits: UInt8[Tensor, "m w"]) -> Directions:
    """`fisher_directions` with the signs of `bits`, in chunks of rows: no other [m, v] array is allocated.

    >>> drawn_directions(torch.zeros(1, 2), torch.tensor([[1]], dtype=torch.uint8)).cotangents
    tensor([[ 0.7071, -0.7071]])
    """
    cotangents = torch.empty_like(logits)
    mean_squares = torch.empty(len(logits), dtype=torch.float64, device=logits.device)
    at_once = max(1, NUMBERS_AT_ONCE // logits.shape[1])
    for start in range(0, len(logits), at_once):
        some = slice(start, start + at_once)
        signs = signs_of(bits[some].to(logits.device), logits.shape[1], logits.dtype)
        cotangents[some], mean_squares[some] = _cotangents_and_mean_squares(logits[some], signs)
    return Directions(cotangents, mean_squares)


def _cotangents_and_mean_squares(logits: Tensor, signs: Tensor) -> tuple[Tensor, Tensor]:
    p = logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(dim=1)
    root = p.sqrt().mul_(signs)
    cotangents = torch.addcmul(root, p, root.sum(dim=1, keepdim=True), value=-1)
    return cotangents.to(logits.dtype), (p * (1 - p)).sum(dim=1, dtype=torch.float64)
