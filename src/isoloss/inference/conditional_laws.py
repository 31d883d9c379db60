"""Exact laws of words: each masked word given all others, and each next word given those before it."""

from jaxtyping import Float, Int
from torch import Tensor

from isoloss.inference.binary_grammar import BinaryGrammar
from isoloss.inference.chart_plan import ChartPlan
from isoloss.inference.inside_outside import inside, outside, word_potentials


def masked_law(grammar: BinaryGrammar, plan: ChartPlan, ids: Int[Tensor, "n T"]) -> Float[Tensor, "n T c"]:
    """Pr(x_t = w | x_{-t}, length T) for every position, from one inside and one outside pass.

    The law at t is proportional to Σ_A outside[t, A] emission[A, w]. Rows are NaN where no word fits.
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
