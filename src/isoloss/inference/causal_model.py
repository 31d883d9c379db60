"""A causal model as a function of tokens, and sentences sampled from it token by token."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class KeyValueCache(Protocol):
    """The keys and values of the tokens that a model has read."""

    def shared_prefix(self, tokens: int) -> "KeyValueCache":
        """The first `tokens` tokens of a cache of one row, as the past of any number of rows.

        Copies nothing, and is not modified by the passes that read it.
        """
        ...


@runtime_checkable
class CausalModel(Protocol):
    """Scores of K words after every token, given the tokens up to and including it."""

    @property
    def device(self) -> torch.device:
        """The device of the model's weights."""
        ...

    def __call__(
        self, tokens: Int[Tensor, "n s"], past: KeyValueCache | None = None
    ) -> tuple[Float[Tensor, "n s K"], KeyValueCache]:
        """Unnormalised log-probabilities of the word after each of these tokens, after those of `past`.

        Also returns the cache of the past and these tokens, for the next pass, except for that of a shared
        prefix.
        """
        ...

    def pass_bytes(self, past: int, tokens: int) -> int:
        """About how many bytes a pass holds per row of `tokens` tokens after a shared prefix of `past`."""
        ...

    def cache_bytes(self, tokens: int) -> int:
        """Memory in bytes of the cache of a row of `tokens` tokens."""
        ...

    def operations(self, past: int, tokens: int) -> float:
        """Floating-point operations of the matrix products of a pass over such a row."""
        ...


def draw_sentences(
    model: CausalModel,
    bos: int,
    tokens: Int[Tensor, " K"],
    uniforms: Sequence[Float[Tensor, " n"]],
    begun: Int[Tensor, "n b"] | None = None,
) -> Int[Tensor, "n T"]:
    """Word numbers of n sentences after `bos`: the words `begun`, if any, then one word per uniform.

    Each word is drawn by inversion of its uniform in [0, 1), so that a sentence depends only on its own words
    and uniforms and on the model's scores; cumulative distributions are in float64. Holds the cache of n
    sentences.
    """
    if begun is None:
        begun = torch.empty(len(uniforms[0]), 0, dtype=torch.int64, device=tokens.device)
    words = list(begun.T)
    read = torch.nn.functional.pad(tokens[begun], (1, 0), value=bos)
    past: KeyValueCache | None = None
    for uniform in uniforms:
        scores, past = model(read, past)
        drawn = inverse_cumulative(scores[:, -1].double().softmax(1), uniform.to(tokens.device))
        words.append(drawn)
        read = tokens[drawn][:, None]
    return torch.stack(words, dim=1)


def inverse_cumulative(
    distributions: Float[Tensor, "n K"], uniforms: Float[Tensor, " n"]
) -> Int[Tensor, " n"]:
    """The first word at which the cumulative distribution exceeds the uniform.

    >>> inverse_cumulative(torch.tensor([[0.25, 0.0, 0.75]] * 2), torch.tensor([0.2, 0.25])).tolist()
    [0, 2]
    """
    cumulative = distributions.cumsum(1)
    target = uniforms.to(distributions)[:, None] * cumulative[:, -1:]
    # A product that rounds up to the total must not run past the last word.
    return torch.searchsorted(cumulative, target, right=True)[:, 0].clamp(max=distributions.shape[1] - 1)
