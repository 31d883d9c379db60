"""Random directions whose squared gradient norms have the trace of the Fisher information as their mean."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from isoloss.curvature.derivatives import generator_of


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

    def at(self, chosen: Bool[Tensor, " m"] | Int[Tensor, " k"]) -> "Directions":
        """The directions of a subset of the predictions, or of those with these indices."""
        mean_squares = None if self.mean_squares is None else self.mean_squares[chosen]
        return Directions(self.cotangents[chosen], mean_squares)


NUMBERS_AT_ONCE, NUMBERS_AT_ONCE_ON_A_GPU = 1 << 20, 1 << 24
"""How many logits are worked on at once, in some seven arrays of that size: little memory beside a model's.
Pieces that suit a processor's caches would leave a GPU waiting for the next."""
BYTES_WORTH_A_THREAD = 1 << 18
"""A thread takes as long to start as it takes to draw some 10,000 random bytes."""


def sign_bits(
    sentences: Int[Tensor, " n"], predictions: Int[Tensor, " n"], vocabulary: int, seed: int
) -> UInt8[Tensor, "m w"]:
    """A random bit for every word of every prediction, on the CPU: w = ⌈v / 8⌉ bytes of eight words each.

    Sentence i has `predictions[i]` rows, in order, from its own generator, seeded by `seed` and its number
    `sentences[i]`. They do not depend on the other sentences measured, nor on chunking. torch's threads share
    the work, without which a GPU would wait for it.

    >>> both = sign_bits(torch.tensor([0, 1]), torch.tensor([1, 2]), 20, seed=7)
    >>> both.shape, bool((both[1:] == sign_bits(torch.tensor([1]), torch.tensor([2]), 20, seed=7)).all())
    (torch.Size([3, 3]), True)
    """

    def fill(of_sentence: Tensor, sentence: int) -> None:
        of_sentence.random_(generator=generator_of(f"{seed} {sentence}"))

    # In page-locked memory, if a GPU may be about to copy them.
    size, locked = (int(predictions.sum()), -(-vocabulary // 8)), torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    bits = torch.empty(size, dtype=torch.uint8, pin_memory=locked)
    rows, numbers = torch.split(bits, predictions.tolist()), sentences.tolist()
    threads = min(torch.get_num_threads(), bits.numel() // BYTES_WORTH_A_THREAD)
    if threads < 2:
        list(map(fill, rows, numbers))
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(fill, rows, numbers))
    return bits


def signs_of(bits: UInt8[Tensor, "m w"], vocabulary: int, dtype: torch.dtype) -> Float[Tensor, "m v"]:
    """±1 for each bit, lowest bits first.

    >>> signs_of(torch.tensor([[5]], dtype=torch.uint8), 4, torch.float32).tolist()
    [[1.0, -1.0, 1.0, -1.0]]
    """
    places = torch.arange(8, dtype=torch.uint8, device=bits.device)
    if bits.device.type != "cpu":
        ones = (bits[..., None] >> places).bitwise_and_(1).view(len(bits), -1)[:, :vocabulary]
        return ones.to(dtype).mul_(2).sub_(1)
    # A processor looks up eight signs sooner than it shifts eight bits.
    every_byte = torch.arange(256, dtype=torch.uint8)[:, None] >> places & 1
    signs = (2 * every_byte.to(dtype) - 1).index_select(0, bits.flatten().int())
    return signs.view(len(bits), -1)[:, :vocabulary]


def fisher_directions(logits: Float[Tensor, "m v"], signs: Float[Tensor, "m v"]) -> Directions:
    """δ = √p ∘ s - p (√p · s) for p = softmax(logits) and signs s; in the logits' precision.

    This combines the columns of diag(√p) - p √pᵀ with random signs: E δ δᵀ = diag(p) - p pᵀ, the covariance
    of onehot(y) - p for a label y drawn from p. Hence ||∇ Σ δ · logits||² has the same mean as ||∇ log
    p_y||², without the heavy tail of rare labels; E |δ|² = 1 - |p|². Computed in at least float32.

    >>> fisher_directions(torch.zeros(1, 2), torch.tensor([[1.0, -1.0]]))
    Directions(cotangents=tensor([[ 0.7071, -0.7071]]), mean_squares=tensor([0.5000], dtype=torch.float64))
    """
    p = logits.to(torch.promote_types(logits.dtype, torch.float32)).softmax(dim=1)
    root = p.sqrt().mul_(signs)
    cotangents = torch.addcmul(root, p, root.sum(dim=1, keepdim=True), value=-1)
    return Directions(cotangents.to(logits.dtype), (p * (1 - p)).sum(dim=1, dtype=torch.float64))


def drawn_directions(logits: Float[Tensor, "m v"], bits: UInt8[Tensor, "m w"]) -> Directions:
    """`fisher_directions` with the signs of `bits`, in chunks of rows: no other [m, v] array is allocated."""
    cotangents = torch.empty_like(logits)
    mean_squares = torch.empty(len(logits), dtype=torch.float64, device=logits.device)
    numbers = NUMBERS_AT_ONCE_ON_A_GPU if logits.is_cuda else NUMBERS_AT_ONCE
    at_once = max(1, numbers // logits.shape[1])
    for start in range(0, len(logits), at_once):
        some = slice(start, start + at_once)
        signs = signs_of(bits[some].to(logits.device, non_blocking=True), logits.shape[1], logits.dtype)
        of_some = fisher_directions(logits[some], signs)
        assert of_some.mean_squares is not None
        cotangents[some], mean_squares[some] = of_some.cotangents, of_some.mean_squares
    return Directions(cotangents, mean_squares)
