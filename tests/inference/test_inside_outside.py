"""The passes against plain loops over every span, split and rule."""

import pytest
import torch
from torch import Tensor

from isoloss.inference.chart_plan import BinaryGrammar, sentence_plan
from isoloss.inference.inside_outside import inside, lift, lifting_bits, outside, word_potentials
from thorough_cases import others_thorough


def random_grammar(symbols: int, rules: int, words: int, seed: int) -> BinaryGrammar:
    generator = torch.Generator().manual_seed(seed)
    triples = torch.randperm(symbols**3, generator=generator)[:rules]
    emission = torch.rand(symbols, words, generator=generator, dtype=torch.float64)
    return BinaryGrammar(
        initial=torch.rand(symbols, generator=generator, dtype=torch.float64),
        parent=triples // symbols**2,
        left=triples // symbols % symbols,
        right=triples % symbols,
        weight=torch.rand(rules, generator=generator, dtype=torch.float64),
        emission=emission * (torch.rand(symbols, words, generator=generator) < 0.7),
    )


def plain_weight(grammar: BinaryGrammar, potentials: Tensor) -> Tensor:
    """Weight of one sentence from potentials [S, T], differentiable in them."""
    words = potentials.shape[1]
    chart = {(place, 1): list(potentials[:, place]) for place in range(words)}
    for length in range(2, words + 1):
        for start in range(words - length + 1):
            cell = [torch.zeros((), dtype=torch.float64)] * grammar.symbols
            for k in range(1, length):
                for a, b, c, p in zip(
                    grammar.parent.tolist(),
                    grammar.left.tolist(),
                    grammar.right.tolist(),
                    grammar.weight,
                    strict=True,
                ):
                    cell[a] = cell[a] + p * chart[start, k][b] * chart[start + k, length - k][c]
            chart[start, length] = cell
    return sum(w * x for w, x in zip(grammar.initial, chart[0, words], strict=True))  # type: ignore[return-value]


@pytest.mark.parametrize("seed", others_thorough(range(4), quick=2))
@pytest.mark.parametrize("words", [1, 2, 5])
def test_weights_and_their_derivatives(words: int, seed: int) -> None:
    """The outside weight at a position is the derivative of the sentence's weight there."""
    grammar = random_grammar(symbols=3, rules=9, words=4, seed=seed)
    plan = sentence_plan(grammar, words, grammar.initial > 0)
    if words not in plan.levels:
        return
    ids = torch.randint(0, 4, (5, words), generator=torch.Generator().manual_seed(seed))
    chart = inside(plan, word_potentials(grammar.emission, ids))
    root = grammar.initial[plan.levels[words].symbols]
    weights = chart.log_weight(root @ chart.whole(words)).exp()
    around = outside(plan, chart, root)
    for row in range(5):
        potentials = grammar.emission[:, ids[row]].clone().requires_grad_()
        expected = plain_weight(grammar, potentials)
        assert weights[row].item() == pytest.approx(expected.item(), rel=1e-12)
        (slope,) = torch.autograd.grad(expected, potentials)
        slope = slope[plan.levels[1].symbols]
        ours = around[:, :, row] / around[:, :, row].sum(0)
        assert torch.allclose(ours, slope / slope.sum(0), rtol=1e-10, atol=1e-14, equal_nan=True)


def test_potentials_of_any_word_sum_over_sentences() -> None:
    grammar = random_grammar(symbols=3, rules=9, words=4, seed=1)
    plan = sentence_plan(grammar, 3, grammar.initial > 0)
    free = grammar.emission.sum(1)[:, None, None].expand(-1, 3, 1)
    chart = inside(plan, free)
    total = chart.log_weight(grammar.initial[plan.levels[3].symbols] @ chart.whole(3)).exp()
    assert total.item() == pytest.approx(float(grammar.length_weights(3)[3] @ grammar.initial), rel=1e-12)


@pytest.mark.parametrize("peak", [2.0**-900, 2.0**900])
def test_lifting_changes_no_weight(peak: float) -> None:
    grammar = random_grammar(symbols=3, rules=9, words=4, seed=1)
    plan = sentence_plan(grammar, 4, grammar.initial > 0)
    chart = inside(plan, word_potentials(grammar.emission, torch.tensor([[0, 1, 2, 3], [1, 1, 1, 1]])))
    root = grammar.initial[plan.levels[4].symbols]
    before = chart.log_weight(root @ chart.whole(4))
    bits = lifting_bits(torch.tensor([peak, 1.0], dtype=torch.float64), 4)
    lift(chart, bits)
    assert bits[0] != 0
    assert bits[1] == 0
    assert torch.allclose(chart.log_weight(root @ chart.whole(4)), before, rtol=1e-13)
