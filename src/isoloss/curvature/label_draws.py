"""Random directions in the space of logits whose squared gradients have the Fisher's trace as their mean."""

import hashlib

import torch
from jaxtyping import Float, Int
from torch import Tensor


def sign_draws(
    sentences: Int[Tensor, " n"], predictions: int, vocabulary: int, seed: int
) -> Float[Tensor, "n M v"]:
    """Independent ±1 for every word of every one of a sentence's `predictions`, on the CPU, float64.

    Each sentence has a generator of its own, from `seed` and the sentence's number: its signs do not
    depend on which sentences are measured beside it, nor on chunks.

    >>> both, second = sign_draws(torch.arange(2), 1, 4, seed=7), sign_draws(torch.tensor([1]), 1, 4, seed=7)
    >>> bool((both[1] == second[0]).all()), both.abs().unique().tolist()
    (True, [1.0])
    """
    signs = torch.empty(len(sentences), predictions, vocabulary, dtype=torch.float64)
    generator = torch.Generator()
    for place, sentence in enumerate(sentences.tolist()):
        digest = hashlib.blake2b(f"{seed} {sentence}".encode(), digest_size=8).digest()
        generator.manual_seed(int.from_bytes(digest, "big"))
        signs[place] = torch.randint(0, 2, (predictions, vocabulary), generator=generator)
    return 2 * signs - 1


def fisher_cotangents(logits: Float[Tensor, "m v"], signs: Float[Tensor, "m v"]) -> Float[Tensor, "m v"]:
    """δ = √p ∘ s - p (√p · s), p the softmax of the logits and s of signs; in the logits' precision.

    The columns of diag(√p) - p √pᵀ combined by signs: E δ δᵀ = diag(p) - p pᵀ, which is the covariance of
    onehot(y) - p for a label y drawn from p. So ||∇ Σ δ · logits||² has the mean of ||∇ log p_y||²,
    without the heavy tail of rare labels (spec 5).

    >>> fisher_cotangents(torch.zeros(1, 2), torch.tensor([[1.0, -1.0]])).tolist()
    [[0.707..., -0.707...]]
    """
    p = logits.double().softmax(dim=1)
    root = p.sqrt()
    s = signs.to(p)
    return (root * s - p * (root * s).sum(dim=1, keepdim=True)).to(logits.dtype)
