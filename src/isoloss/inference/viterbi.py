"""The single best path of states of each sentence (Viterbi 1967; Forney 1973).

The best path maximises Pr(z, x) where a distribution sums it: replacing the sums of the forward and backward
passes by maxima gives the best completion's probability, not Pr(x_t | x_{-t}). Exact distributions need
forward-backward.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.inference.forward_backward import TERMS_AT_ONCE
from isoloss.inference.hidden_markov_chain import HiddenMarkovChain


@dataclass(frozen=True)
class BestPaths:
    """`states[i]` is sentence i's best path; log max_z Pr(z, x) in nats, -inf where x is impossible."""

    states: Int[Tensor, "n T"]
    log_probability: Float[Tensor, " n"]


def viterbi(chain: HiddenMarkovChain, ids: Int[Tensor, "n T"]) -> BestPaths:
    """argmax_z Pr(z_1..z_T, x_1..x_T), in logarithms; of equally good predecessors the first is taken.

    >>> stay = torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.float64)
    >>> noisy = torch.tensor([[0.8, 0.2], [0.2, 0.8]], dtype=torch.float64)
    >>> viterbi(HiddenMarkovChain(stay.mean(0), stay, noisy), torch.tensor([[0, 1, 0, 0]])).states.tolist()
    [[0, 0, 0, 0]]
    """
    log_transition = chain.transition.log()
    scores = chain.initial.log().expand(len(ids), -1)
    came_from: list[Tensor] = []
    for t, words in enumerate(ids.T):
        if t > 0:
            scores, predecessors = _best_predecessors(scores, log_transition)
            came_from.append(predecessors)
        scores = scores + chain.by_word[words].log()
    log_probability, state = scores.max(1)
    path = [state]
    for predecessors in reversed(came_from):
        path.append(predecessors.gather(1, path[-1][:, None])[:, 0])
    return BestPaths(torch.stack(path[::-1], 1), log_probability)


def _best_predecessors(
    scores: Float[Tensor, "n S"], log_transition: Float[Tensor, "S S"]
) -> tuple[Float[Tensor, "n S"], Int[Tensor, "n S"]]:
    at_once = max(1, TERMS_AT_ONCE // log_transition.numel())
    best = [(part[:, :, None] + log_transition).max(1) for part in torch.split(scores, at_once)]
    return torch.cat([one.values for one in best]), torch.cat([one.indices for one in best])
