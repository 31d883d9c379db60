"""The distribution of the next word, from one left-to-right pass over an inside chart (Stolcke 1995).

O_j[C, m] is the weight of the first j words together with C expected to start at word j + 1, while what
is expected to the right of C will have m words. A prefix's next word w has weight
Σ_m Σ_A Ō_j[A, m] p(A -> w), where Ō_j = O_j Φ also counts the left corners of what is expected:
    O_0 = initial,   O_j[C, m] = Σ_{i<j} Σ_{A -> B C} Ō_i[A, m] p inside(B, i..j).
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.inference.chart_plan import BinaryGrammar, ChartPlan, Level
from isoloss.inference.inside_outside import InsideChart, inside, lifting_bits, word_potentials


@dataclass(frozen=True)
class LeftCorners:
    """The left-corner closure Φ[m]: weight that A's leftmost part is B, followed by m words within A.

    If sentences are unbounded, any words may follow on the right, their weights sum to 1, and there is one
    slice, summed over all m. If sentences have at most `maximum` words, there is a slice for each m <
    `maximum`.
    """

    closure: Float[Tensor, "D S S"]
    maximum: int | None


def free_left_corners(grammar: BinaryGrammar) -> LeftCorners:
    """Φ = Σ_k L^k = (I - L)^-1 for a proper grammar of sentences of any length, L its left corners.

    >>> one, zero = torch.ones(1, dtype=torch.float64), torch.tensor([0])
    >>> free_left_corners(BinaryGrammar(one, zero, zero, zero, one / 4, one[:, None] * 0.75)).closure.tolist()
    [[[1.3333333333333333]]]
    """
    corners = grammar.left_corners()
    identity = torch.eye(grammar.symbols, dtype=torch.float64)
    return LeftCorners(torch.linalg.inv(identity - corners)[None], None)


def bounded_left_corners(grammar: BinaryGrammar, maximum: int) -> LeftCorners:
    """Φ_0 = I, Φ_m = Σ_{k=1..m} L_k Φ_{m-k}, L_k[A, B] = Σ_C p(A -> B C) Pr(C derives k words).

    >>> one, zero = torch.ones(1, dtype=torch.float64), torch.tensor([0])
    >>> grammar = BinaryGrammar(one, zero, zero, zero, one / 4, one[:, None] * 0.75)
    >>> bounded_left_corners(grammar, 2).closure.flatten().tolist()
    [1.0, 0.1875]
    """
    lengths = grammar.length_weights(maximum)
    size = grammar.symbols
    steps = torch.zeros(maximum, size, size, dtype=torch.float64)
    for words in range(1, maximum):
        weights = grammar.weight * lengths[words, grammar.right]
        steps[words].index_put_((grammar.parent, grammar.left), weights, accumulate=True)
    closure = torch.zeros(maximum, size, size, dtype=torch.float64)
    closure[0] = torch.eye(size, dtype=torch.float64)
    for words in range(1, maximum):
        closure[words] = (steps[1 : words + 1] @ closure[:words].flip(0)).sum(0)
    return LeftCorners(closure, maximum)


def next_distribution(
    grammar: BinaryGrammar, corners: LeftCorners, plan: ChartPlan, ids: Int[Tensor, "n T"]
) -> Float[Tensor, "n T_1 c_1"]:
    """Pr(next word = w or the end | the first j words) for j = 0..T; the end is the last column.

    `plan` is a `prefix_plan` of T words. Shorter sentences are padded with -1; rows after the end of a
    sentence are meaningless, and rows whose words are no prefix of a sentence are NaN; so are those whose
    first words are so much less likely than the rest that one scale a word does not do.
    """
    chart = inside(plan, word_potentials(grammar.emission, ids))
    pairs = _Pairs(grammar, plan)
    predicted: list[Tensor] = []
    lifted = torch.zeros(len(ids), dtype=torch.float64)  # bits a word, of spans only when they are used
    distribution = torch.empty(len(ids), ids.shape[1] + 1, grammar.emission.shape[1] + 1, dtype=torch.float64)
    for words in range(ids.shape[1] + 1):
        depth = 1 if corners.maximum is None else corners.maximum - words
        expected = _expected(grammar, pairs, chart, lifted, predicted, words, depth)
        bits = lifting_bits(expected.sum((0, 1)), max(words, 1))
        if bits.any():
            lifted += bits
            for start, weights in enumerate([*predicted, expected]):
                weights.mul_((bits * start).exp2())
        closed = _closed(corners.closure, expected)
        predicted.append(pairs.weights @ closed)
        distribution[:, words, :-1] = closed.sum(0).T @ grammar.emission
        distribution[:, words, -1] = _lift(_ending(grammar, plan, chart, words), lifted * words)
    return distribution / distribution.sum(-1, keepdim=True)


class _Pairs:
    """The q distinct right sides (B, C): `weights[q, A]`, and which B can have a given number of words."""

    def __init__(self, grammar: BinaryGrammar, plan: ChartPlan) -> None:
        size = grammar.symbols
        distinct, pair = np.unique((grammar.left * size + grammar.right).numpy(), return_inverse=True)
        self.left, self.right = torch.from_numpy(distinct // size), torch.from_numpy(distinct % size)
        self.weights = torch.zeros(len(distinct), size, dtype=torch.float64)
        self.weights.index_put_((torch.from_numpy(pair), grammar.parent), grammar.weight, accumulate=True)
        self.right_of = (self.right == torch.arange(size)[:, None]).double()
        self.levels = plan.levels
        self.by_length = {length: self._with_left_in(level) for length, level in plan.levels.items()}

    def _with_left_in(self, level: Level) -> tuple[Tensor, Tensor]:
        """Pairs whose left symbol is in `level`, and its row there."""
        pairs = torch.isin(self.left, level.symbols).nonzero()[:, 0]
        return pairs, torch.searchsorted(level.symbols, self.left[pairs])


def _lift(weights: Float[Tensor, "*s n"], bits: Float[Tensor, " n"]) -> Float[Tensor, "*s n"]:
    """In place; in two steps, since 2^bits may be too large for a number by itself."""
    half = (bits / 2).floor()
    return weights.mul_(half.exp2()).mul_((bits - half).exp2()) if bits.any() else weights


def _expected(
    grammar: BinaryGrammar,
    pairs: _Pairs,
    chart: InsideChart,
    lifted: Float[Tensor, " n"],
    predicted: list[Tensor],
    words: int,
    depth: int,
) -> Float[Tensor, "D S n"]:
    """O after `words` words: every pair predicted at some start whose left part is exactly the rest."""
    sentences = len(chart.exponent)
    expected = torch.zeros(depth, grammar.symbols, sentences, dtype=torch.float64)
    if words == 0:
        expected[0] = grammar.initial[:, None]
        return expected
    found = torch.zeros(depth, len(pairs.left), sentences, dtype=torch.float64)
    for start in range(words):
        level = pairs.levels.get(words - start)
        if level is not None and start in level.starts:
            chosen, rows = pairs.by_length[words - start]
            spans = chart.levels[words - start][:, level.starts.index(start)].index_select(0, rows)
            spans = _lift(spans, lifted * (words - start))
            found.index_add_(1, chosen, predicted[start][:depth].index_select(1, chosen) * spans)
    return torch.matmul(pairs.right_of, found, out=expected)


def _ending(grammar: BinaryGrammar, plan: ChartPlan, chart: InsideChart, words: int) -> Float[Tensor, " n"]:
    """Weight of the first `words` words as a whole sentence."""
    level = plan.levels.get(words)
    if level is None or 0 not in level.starts:
        return torch.zeros(len(chart.exponent), dtype=torch.float64)
    return grammar.initial[level.symbols] @ chart.levels[words][:, level.starts.index(0)]


def _closed(closure: Float[Tensor, "D S S"], expected: Float[Tensor, "d S n"]) -> Float[Tensor, "d S n"]:
    """Ō[m] = Σ_k Φ[k]ᵀ O[m - k], for the d numbers of words that may still follow."""
    depth, symbols, sentences = expected.shape
    side_by_side = expected.transpose(0, 1).reshape(symbols, -1)  # one product for all m, not one each
    closed = torch.zeros_like(side_by_side)
    for more in range(depth):
        reached = side_by_side[:, : (depth - more) * sentences]
        closed[:, more * sentences :].addmm_(closure[more].T, reached)
    return closed.view(symbols, depth, sentences).transpose(0, 1).contiguous()


def leftmost_weights(grammar: BinaryGrammar, corners: LeftCorners, words: int) -> Float[Tensor, " S"]:
    """The expected count of each symbol at the start of the sentence, leaving room for its own `words` words.

    A symbol at the start of the sentence lies on the chain of leftmost parts that descends from the root.

    >>> one, zero = torch.ones(1, dtype=torch.float64), torch.tensor([0])
    >>> grammar = BinaryGrammar(one, zero, zero, zero, one / 4, one[:, None] * 0.75)
    >>> leftmost_weights(grammar, bounded_left_corners(grammar, 2), 1).tolist()
    [1.1875]
    """
    following = None if corners.maximum is None else corners.maximum - words + 1
    return grammar.initial @ corners.closure[:following].sum(0)
