"""Exact masked distributions of an autoregressive model: try each word at the mask and score the suffix.

    Pr(x_t = w | x_{-t}) ∝ Pr(w | x_<t) Π_{s>t} Pr(x_s | x_<t, w, x_{t+1..s-1})

for all K words w. The tokens before t are read once, and their keys and values are shared by the K
substitutes and by all positions; a substitute then costs only its own suffix of T - t tokens (t from 1),
since the last word is scored but never read.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.inference.causal_model import CausalModel, KeyValueCache


@dataclass(frozen=True)
class SuffixCost:
    """The cost of masked distributions: tokens read, and floating-point operations of their matrix products.

    >>> print(SuffixCost(tokens=552_000, operations=1.2e14))
    552,000 tokens of suffixes, 1.2e+14 operations
    """

    tokens: int
    operations: float

    def __str__(self) -> str:
        return f"{self.tokens:,} tokens of suffixes, {self.operations:.2g} operations"


def suffix_cost(model: CausalModel, words: int, length: int, positions: Int[Tensor, " p"]) -> SuffixCost:
    """The cost of the distributions at `positions` (from 0) of sentences of `length` words."""
    tokens, operations = 0, 0.0
    for position, times in Counter(positions.tolist()).items():
        suffix = length - 1 - position
        tokens += times * words * suffix
        operations += times * words * model.operations(position + 1, suffix)
    return SuffixCost(tokens, operations)


def masked_log_probabilities(
    model: CausalModel,
    bos: int,
    tokens: Int[Tensor, " K"],
    sentence: Int[Tensor, " T"],
    positions: Int[Tensor, " p"],
    memory_bytes: int,
) -> Iterator[Float[Tensor, " K"]]:
    """log Pr(x_t = . | x_{-t}) in nats, float64, for each of `positions` (from 0), one after the other.

    `sentence` has word numbers, `tokens[w]` is the model's token for word w, and every sentence starts after
    `bos`. A pass holds about `memory_bytes`, or one substitute if that needs more.
    """
    read = torch.cat([tokens.new_tensor([bos]), tokens[sentence[:-1]]])
    scores, cache = model(read[None])
    before = scores[0].double().log_softmax(1)
    for position in positions.tolist():
        after = _suffix_log_probabilities(model, cache, tokens, sentence, position, memory_bytes)
        yield (before[position] + after).log_softmax(0)


def rows_at_once(model: CausalModel, past: int, tokens: int, memory_bytes: int) -> int:
    """How many rows of `tokens` tokens after a shared prefix fit in `memory_bytes`; at least one."""
    return max(1, memory_bytes // model.pass_bytes(past, tokens))


def _suffix_log_probabilities(
    model: CausalModel,
    cache: KeyValueCache,
    tokens: Int[Tensor, " K"],
    sentence: Int[Tensor, " T"],
    position: int,
    memory_bytes: int,
) -> Float[Tensor, " K"]:
    """log Pr(what follows `position` | what comes before, w) for every word w."""
    following = sentence[position + 1 :]
    if len(following) == 0:
        return torch.zeros(len(tokens), dtype=torch.float64, device=tokens.device)
    past = cache.shared_prefix(position + 1)
    at_once = rows_at_once(model, position + 1, len(following), memory_bytes)
    found = []
    for substitutes in torch.split(tokens, at_once):
        rest = tokens[following[:-1]].expand(len(substitutes), -1)
        scores, _ = model(torch.cat([substitutes[:, None], rest], dim=1), past)
        found.append(sum_of_log_probabilities(scores, following.expand(len(scores), -1)))
    return torch.cat(found)


def sum_of_log_probabilities(
    scores: Float[Tensor, "n s K"], words: Int[Tensor, "n s"]
) -> Float[Tensor, " n"]:
    """Σ_s log softmax(scores[:, s])[words[:, s]], in float64; overwrites `scores`, most of the memory.

    >>> sum_of_log_probabilities(torch.tensor([[[1.0, 1.0], [0.0, 0.0]]]), torch.tensor([[0, 1]])).exp()
    tensor([0.2500], dtype=torch.float64)
    """
    chosen = scores.gather(2, words[..., None]).double()[..., 0]
    highest = scores.amax(2, keepdim=True)
    normaliser = scores.sub_(highest).exp_().sum(2).double().log() + highest[..., 0].double()
    return (chosen - normaliser).sum(1)
