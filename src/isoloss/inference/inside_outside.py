"""The inside and outside passes (Baker 1979; Lari and Young 1990), batched over sentences of one length.

Numbers are not logarithms: the potentials at every position are scaled by their maximum, and if that is not
enough, spans of l words are scaled by 2^(e l) with one integer e per sentence, which is exact. Sentences are
the last dimension, along which memory is contiguous. All float64.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.inference.chart_plan import BinaryGrammar, ChartPlan, Combination

LIFT_BITS = 200
"""Charts are rescaled when their largest number leaves 2^±200; float64 reaches 2^-1022."""


@dataclass(frozen=True)
class InsideChart:
    """Inside weights of n sentences: `levels[l][A, i, s]` scales Pr(A derives the l words from start i).

    True weight = levels[l] * exp(Σ log_scale over the span's words) / 2^(exponent * l).
    """

    levels: dict[int, Float[Tensor, "_ _ n"]]
    log_scale: Float[Tensor, "T n"]
    exponent: Float[Tensor, " n"]

    def whole(self, words: int) -> Float[Tensor, "s n"]:
        """Scaled weights of the whole sentence, one row per symbol of the plan's last level."""
        return self.levels[words][:, 0]

    def log_weight(self, scaled: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Logarithm of the true weight, in nats, of whole sentences with the given scaled weight."""
        return scaled.log() + self.log_scale.sum(0) - self.exponent * (len(self.log_scale) * math.log(2))


def inside(plan: ChartPlan, potentials: Float[Tensor, "S T n"]) -> InsideChart:
    """Inside pass: c_l[A, i] = Σ_k Σ_{A -> B C} p c_k[B, i] c_{l-k}[C, i + k] over the plan's spans.

    `potentials[A, t]` is the weight with which A becomes the word at t: a column of the emission table for a
    known word, the sum of all columns for a word that may be any.
    """
    scale = potentials.amax(0)
    scale = torch.where(scale > 0, scale, 1.0)
    chart = InsideChart({}, scale.log(), torch.zeros(potentials.shape[2], dtype=torch.float64))
    first = plan.levels[1]
    at = slice(first.starts.start, first.starts.stop, first.starts.step)
    chart.levels[1] = potentials[first.symbols][:, at] / scale[at]
    for combination in plan.combinations:
        if combination.length not in chart.levels:
            longest = max(chart.levels)
            lift(chart, lifting_bits(chart.levels[longest].amax((0, 1)), longest))
            level = plan.levels[combination.length]
            shape = (len(level.symbols), len(level.starts), potentials.shape[2])
            chart.levels[combination.length] = torch.zeros(shape, dtype=torch.float64)
        left, right = _pairs(combination, chart.levels)
        weights = _times(combination.block.weights, left.mul_(right))
        target = chart.levels[combination.length][:, combination.parent_places]
        target.index_add_(0, combination.block.parents, weights)
    return chart


def outside(plan: ChartPlan, chart: InsideChart, root: Float[Tensor, " s"]) -> Float[Tensor, "s_1 T n"]:
    """Outside pass: the scaled weight of everything around each position, by the symbol at that position.

    o[B, i] += Σ p o[A] c[C] over rules A -> B C, and likewise o[C]; `root` weighs the symbols of the plan's
    last level. The word at position t does not enter its own outside weights, so o times the emission table
    is, up to a factor, the distribution of the word at t given all others.
    """
    outer = {length: torch.zeros_like(level) for length, level in chart.levels.items()}
    outer[plan.words][:, 0] = root[:, None]
    for combination in reversed(plan.combinations):
        block = combination.block
        left, right = _pairs(combination, chart.levels)
        above = outer[combination.length][:, combination.parent_places][block.parents]
        reaching = _times(block.weights.T, above)
        to_left = _times(block.left_of, right.mul_(reaching))
        to_right = _times(block.right_of, left.mul_(reaching))
        rest = combination.length - combination.left_length
        outer[combination.left_length][:, combination.left_places].index_add_(0, block.left_symbols, to_left)
        outer[rest][:, combination.right_places].index_add_(0, block.right_symbols, to_right)
    return outer[1]


def lift(chart: InsideChart, bits: Float[Tensor, " n"]) -> None:
    """Rescale in place, by so many bits a word."""
    if bits.any():
        chart.exponent.add_(bits)
        for words, level in chart.levels.items():
            level.mul_((bits * words).exp2())


def lifting_bits(peak: Float[Tensor, " n"], length: int) -> Float[Tensor, " n"]:
    """The bits a word with which `peak`, which scales as spans of `length` words do, comes close to 1.

    Zero, as for most sentences, if it is within 2^±`LIFT_BITS`.
    """
    bits = torch.where(peak > 0, -peak.log2(), 0.0)
    return torch.where(bits.abs() > LIFT_BITS, (bits / length).round(), 0.0)


def word_potentials(emission: Float[Tensor, "S c"], ids: Int[Tensor, "n T"]) -> Float[Tensor, "S T n"]:
    """Potentials of known words, zero on padding.

    >>> word_potentials(torch.tensor([[0.25, 0.75]], dtype=torch.float64), torch.tensor([[1, -1]])).tolist()
    [[[0.75], [0.0]]]
    """
    padded = torch.nn.functional.pad(emission, (0, 1))
    return padded[:, ids.T]


def _pairs(
    combination: Combination, levels: dict[int, Tensor]
) -> tuple[Float[Tensor, "q p n"], Float[Tensor, "q p n"]]:
    """Copies of the left and right parts' weights, one row per pair."""
    left = levels[combination.left_length][:, combination.left_places]
    right = levels[combination.length - combination.left_length][:, combination.right_places]
    return left.index_select(0, combination.block.lefts), right.index_select(0, combination.block.rights)


def _times(matrix: Float[Tensor, "a b"], values: Float[Tensor, "b p n"]) -> Float[Tensor, "a p n"]:
    return (matrix @ values.flatten(1)).reshape(-1, *values.shape[1:])


def masked_distribution(
    grammar: BinaryGrammar, plan: ChartPlan, ids: Int[Tensor, "n T"]
) -> Float[Tensor, "n T c"]:
    """Pr(x_t = w | x_{-t}, length T) for every position, from one inside and one outside pass.

    The distribution at t is proportional to Σ_A outside[t, A] emission[A, w]. Rows are NaN where no word
    fits.
    """
    chart = inside(plan, word_potentials(grammar.emission, ids))
    around = outside(plan, chart, grammar.initial[plan.levels[plan.words].symbols])
    emission = grammar.emission[plan.levels[1].symbols]
    around /= (around * emission.sum(1)[:, None, None]).sum(0)
    return around.permute(2, 1, 0).contiguous() @ emission


def log_weights(grammar: BinaryGrammar, plan: ChartPlan, ids: Int[Tensor, "n T"]) -> Float[Tensor, " n"]:
    """Logarithm of each sentence's weight, in nats; -inf outside the language."""
    chart = inside(plan, word_potentials(grammar.emission, ids))
    initial = grammar.initial[plan.levels[plan.words].symbols]
    return chart.log_weight(initial @ chart.whole(plan.words))
