"""The forward and backward passes of a hidden Markov chain (Baum et al. 1970; Rabiner 1989), in batch.

    p_t[s] = Pr(z_t = s, x_<t):     p_0 = initial,  p_{t+1} = (p_t * e_t) transition
    f_t[s] = Pr(x_>t | z_t = s):    f_{T-1} = 1,    f_{t-1} = (f_t * e_t) transitionᵀ
with e_t[s] = emission[s, x_t]. The distribution of the state at t given the words before is ∝ p_t, given all
other words ∝ p_t * f_t, and given all words ∝ p_t * f_t * e_t; a distribution of states times `emission` is
the distribution of the word. These distributions sum over all paths of states, which Viterbi's algorithm does
not: it finds the one best path, whose share of the probability may be small, and a maximum gives no
distribution.

Numbers are not logarithms: each sentence's are normalised to sum to 1 before they can leave float64's range.
If that could still lose a positive number, that sentence alone is recomputed in logarithms, so that a zero
always means impossible. A chain with probabilities below 1e-65 always uses that slower method.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from isoloss.inference.hidden_markov_chain import FLOOR, HiddenMarkovChain, times_blocks

TERMS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Smoothed:
    """The result of both passes: Pr(x_t = w | x_{-t}) and Pr(z_t = s | x).

    Rows that condition on an impossible event are NaN.
    """

    masked_distribution: Float[Tensor, "n T c"]
    posteriors: Float[Tensor, "n T S"]


@dataclass(frozen=True)
class Forward:
    """The forward pass over n sentences of T words: `predicted[t]` is p_t up to a factor per sentence.

    `log_probability` is log Pr(x) in nats, -inf if x is impossible. Rows of `predicted` that are `risky` are
    meaningless: their distributions are computed in logarithms. Memory: 8 n T S bytes.
    """

    chain: HiddenMarkovChain
    words: Int[Tensor, "T n"]
    predicted: tuple[Float[Tensor, "n S"], ...]
    risky: Bool[Tensor, " n"]
    log_probability: Float[Tensor, " n"]

    def next_distribution(self) -> Float[Tensor, "n T c"]:
        """Pr(x_t = w | x_<t), t from 0; rows are NaN if the preceding words are impossible."""
        distribution = torch.empty(*self.words.T.shape, len(self.chain.by_word), dtype=torch.float64)
        for t, predicted in enumerate(self.predicted):
            states = predicted / predicted.sum(1, keepdim=True)
            times_blocks(states, self.chain.emission_blocks, out=distribution[:, t])
        rows = self.risky.nonzero()[:, 0]
        if len(rows):
            distribution[rows] = self._log_predicted(rows).softmax(2).transpose(0, 1) @ self.chain.emission
        return distribution

    def posteriors(self, out: Float[Tensor, "T n S"] | None = None) -> Float[Tensor, "n T S"]:
        """Pr(z_t = s | x), a view of `out` if it is given; NaN for an impossible sentence."""
        result = self._room_for_posteriors() if out is None else out
        backward = self._backward()
        for t, (following, emitted) in zip(reversed(range(len(result))), backward, strict=True):
            here = torch.mul(self.predicted[t], following, out=result[t]).mul_(emitted)
            here.div_(here.sum(1, keepdim=True))
        rows = (self.risky | backward.risky).nonzero()[:, 0]
        if len(rows):
            result[:, rows] = self._distributions_by_logarithms(rows)[1]
        return result.transpose(0, 1)

    def smoothed(self) -> Smoothed:
        """Masked distributions and posteriors, from one backward pass. Memory: 8 n T (S + c) bytes."""
        result, backward = self._room_for_posteriors(), self._backward()
        distribution = torch.empty(*self.words.T.shape, len(self.chain.by_word), dtype=torch.float64)
        for t, (following, emitted) in zip(reversed(range(len(result))), backward, strict=True):
            here = torch.mul(self.predicted[t], following, out=result[t])
            here.div_(here.sum(1, keepdim=True))
            times_blocks(here, self.chain.emission_blocks, out=distribution[:, t])
            here.mul_(emitted)
            here.div_(here.sum(1, keepdim=True))
        rows = (self.risky | backward.risky).nonzero()[:, 0]
        if len(rows):
            given_others, result[:, rows] = self._distributions_by_logarithms(rows)
            distribution[rows] = (given_others @ self.chain.emission).transpose(0, 1)
        return Smoothed(distribution, result.transpose(0, 1))

    def _room_for_posteriors(self) -> Float[Tensor, "T n S"]:
        return torch.empty(*self.words.shape, self.chain.states, dtype=torch.float64)

    def _backward(self) -> "_Sweep":
        """f_t and e_t from t = T - 1 down to 0."""
        ones = torch.ones_like(self.chain.initial)
        return _Sweep(self.chain, ones, self.chain.reverse_blocks, self.words.flip(0))

    def _log_predicted(self, rows: Int[Tensor, " r"]) -> Float[Tensor, "T r S"]:
        return logarithmic_sweep(
            self.chain.initial, self.chain.transition, self.chain.by_word, self.words[:, rows]
        )[:-1]

    def _distributions_by_logarithms(
        self, rows: Int[Tensor, " r"]
    ) -> tuple[Float[Tensor, "T r S"], Float[Tensor, "T r S"]]:
        """The distributions of the states of some sentences, given all other words and given all words."""
        chain, words = self.chain, self.words[:, rows]
        ones = torch.ones_like(chain.initial)
        following = logarithmic_sweep(ones, chain.transition.T, chain.by_word, words.flip(0))[:-1].flip(0)
        given_others = self._log_predicted(rows) + following
        return given_others.softmax(2), (given_others + chain.by_word[words].log()).softmax(2)


def forward(chain: HiddenMarkovChain, ids: Int[Tensor, "n T"]) -> Forward:
    """The forward pass only; methods run the backward pass if they need it.

    >>> stay = torch.tensor([[0.75, 0.25], [0.25, 0.75]], dtype=torch.float64)
    >>> chain = HiddenMarkovChain(stay.mean(0), stay, torch.eye(2, dtype=torch.float64))
    >>> passed = forward(chain, torch.tensor([[0, 0, 0]]))
    >>> passed.log_probability.exp().tolist()
    [0.28125]
    >>> passed.next_distribution().tolist()
    [[[0.5, 0.5], [0.75, 0.25], [0.75, 0.25]]]
    >>> passed.smoothed().masked_distribution.tolist()
    [[[0.75, 0.25], [0.9, 0.1], [0.75, 0.25]]]
    """
    words = ids.T.contiguous()
    sweep = _Sweep(chain, chain.initial, chain.transition_blocks, words)
    steps = list(sweep)
    predicted, emitted = tuple(values for values, _ in steps), steps[-1][1]
    log_probability = torch.linalg.vecdot(predicted[-1], emitted).log() + sweep.log_scale
    rows = sweep.risky.nonzero()[:, 0]
    if len(rows):
        full = logarithmic_sweep(chain.initial, chain.transition, chain.by_word, words[:, rows])
        log_probability[rows] = full[-1].logsumexp(1)
    return Forward(chain, words, predicted, sweep.risky, log_probability)


class _Sweep:
    """v_0 = start, v_{t+1} = (v_t * e_t) blocks: yields v_t, up to a factor per sentence, and e_t.

    At the end, the true v_{T-1} is v_{T-1} * exp(log_scale), and a sentence is risky if one of its positive
    numbers was so small that it could have reached zero before the next check. The yielded e_t is valid until
    the next step.
    """

    def __init__(
        self,
        chain: HiddenMarkovChain,
        start: Float[Tensor, " S"],
        blocks: Float[Tensor, "B m m"],
        words: Int[Tensor, "T n"],
    ) -> None:
        self.chain, self.start, self.blocks, self.words = chain, start, blocks, words
        self.steps_in_range = chain.steps_in_range(len(words))
        self.log_scale = torch.zeros(words.shape[1], dtype=torch.float64)
        self.risky = torch.full((words.shape[1],), self.steps_in_range == 0)

    def __iter__(self) -> Iterator[tuple[Float[Tensor, "n S"], Float[Tensor, "n S"]]]:
        values = self.start.repeat(self.words.shape[1], 1)
        emitted, weighted = torch.empty_like(values), torch.empty_like(values)
        for t, here in enumerate(self.words):
            if t > 0:
                torch.mul(values, emitted, out=weighted)
                values = times_blocks(weighted, self.blocks, out=torch.empty_like(values))
                if t % max(1, self.steps_in_range) == 0:
                    self._rescale(values)
            torch.index_select(self.chain.by_word, 0, here, out=emitted)
            yield values, emitted

    def _rescale(self, values: Float[Tensor, "n S"]) -> None:
        total = values.sum(1)
        total = torch.where(total > 0, total, 1.0)
        values.div_(total[:, None])
        self.log_scale.add_(total.log())
        self.risky |= torch.where(values > 0, values, 1.0).amin(1) < FLOOR


def logarithmic_sweep(
    start: Float[Tensor, " S"],
    matrix: Float[Tensor, "S S"],
    by_word: Float[Tensor, "c S"],
    words: Int[Tensor, "T n"],
) -> Float[Tensor, "T_1 n S"]:
    """log v_0 = log start, log v_{t+1}[s'] = log Σ_s v_t[s] by_word[x_t, s] matrix[s, s']; T_1 is T + 1.

    >>> half = torch.full((2, 2), 0.5, dtype=torch.float64)
    >>> logarithmic_sweep(half[0], half, half, torch.tensor([[0]])).exp().round(decimals=3).tolist()
    [[[0.5, 0.5]], [[0.25, 0.25]]]
    """
    log_matrix, log_by_word = matrix.log(), by_word.log()
    values = start.log().expand(words.shape[1], -1)
    swept = [values]
    for here in words:
        values = log_product(values + log_by_word[here], log_matrix)
        swept.append(values)
    return torch.stack(swept)


def log_product(rows: Float[Tensor, "n S"], log_matrix: Float[Tensor, "S S"]) -> Float[Tensor, "n S"]:
    """log(exp(rows) @ exp(log_matrix)), a few rows at a time, since each takes S² numbers.

    >>> log_product(torch.tensor([[-torch.inf, -800.0]]), torch.tensor([[0.0, 0.0], [-1.0, -2.0]])).tolist()
    [[-801.0, -802.0]]
    """
    at_once = max(1, TERMS_AT_ONCE // log_matrix.numel())
    return torch.cat(
        [torch.logsumexp(part[:, :, None] + log_matrix, dim=1) for part in torch.split(rows, at_once)]
    )


@dataclass(frozen=True)
class BestPaths:
    """`states[i]` is the best path of sentence i; log max_z Pr(z, x) in nats, -inf if x is impossible."""

    states: Int[Tensor, "n T"]
    log_probability: Float[Tensor, " n"]


def viterbi(chain: HiddenMarkovChain, ids: Int[Tensor, "n T"]) -> BestPaths:
    """argmax_z Pr(z_1..z_T, x_1..x_T), in logarithms; among equally good predecessors, the first is taken.

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
