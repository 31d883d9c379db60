"""Sentences of an autoregressive model, drawn word by word, many at once."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.inference.causal_model import CausalModel, KeyValueCache


def draw_sentences(
    model: CausalModel, bos: int, tokens: Int[Tensor, " K"], uniforms: Sequence[Float[Tensor, " n"]]
) -> Int[Tensor, "n T"]:
    """Word numbers of n sentences of T words after `bos`, word t by inversion of uniforms[t] in [0, 1).

    A sentence is a function of its own uniforms and the model's scores; cumulative laws are in float64.
    Holds the n sentences' cache.
    """
    read = torch.full((len(uniforms[0]), 1), bos, device=tokens.device)
    past: KeyValueCache | None = None
    words = []
    for uniform in uniforms:
        scores, past = model(read, past)
        drawn = inverse_cumulative(scores[:, -1].double().softmax(1), uniform.to(tokens.device))
        words.append(drawn)
        read = tokens[drawn][:, None]
    return torch.stack(words, dim=1)


def inverse_cumulative(laws: Float[Tensor, "n K"], uniforms: Float[Tensor, " n"]) -> Int[Tensor, " n"]:
    """The first word at which the cumulative law exceeds the uniform.

    >>> inverse_cumulative(torch.tensor([[0.25, 0.0, 0.75]] * 2), torch.tensor([0.2, 0.25])).tolist()
    [0, 2]
    """
    cumulative = laws.cumsum(1)
    target = uniforms.to(laws)[:, None] * cumulative[:, -1:]
    # A product that rounds up to the whole must not fall off the end.
    return torch.searchsorted(cumulative, target, right=True)[:, 0].clamp(max=laws.shape[1] - 1)
