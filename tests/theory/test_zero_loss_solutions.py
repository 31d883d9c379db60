from dataclasses import replace
from functools import partial

import pytest
import torch

from isoloss.errors import BadInput
from isoloss.theory.one_layer_transformer import (
    OneLayerTransformer,
    farthest_output,
    hessian_trace,
    masked_strings,
    zero_loss_trace,
)
from isoloss.theory.zero_loss_solutions import (
    corrected_bound,
    equality_gaps,
    paper_bound,
    random_features,
    rebalanced,
    split_neurons,
    two_neurons,
    unevenness,
)


@pytest.mark.parametrize("length", [4, 6, 8])
@pytest.mark.parametrize(
    ("neurons", "solution"),
    [(4, partial(two_neurons, neurons=4)), (9, partial(two_neurons, neurons=9)), (4, split_neurons)],
)
def test_flattest_solutions_meet_the_corrected_bound_and_every_condition(neurons, solution, length):
    strings, model = masked_strings(length), solution(length)
    assert farthest_output(model, strings) < 1e-12
    trace = float(hessian_trace(model, strings))
    assert trace == pytest.approx(corrected_bound(neurons, length), rel=1e-11)
    assert trace < 0.6 * paper_bound(length)
    assert max(equality_gaps(model, strings)) < 1e-12


def test_the_split_solution_stands_at_kinks_and_is_uneven():
    strings, model = masked_strings(6), split_neurons(6)
    before = model.preactivations(model.attended(strings.tokens))
    assert ((before == 0).sum(1) == 2).all()
    # Sines of the angles of 1 + e_1 and 1 - e_1 to 1 in six dimensions, weighted by the vectors' lengths.
    sines, lengths = ((5 / 54) ** 0.5, (1 / 6) ** 0.5), (10**0.5, 6**0.5)
    expected = sum(s * w for s, w in zip(sines, lengths, strict=True)) / sum(lengths)
    assert unevenness(model) == pytest.approx(expected, rel=1e-6)
    assert unevenness(two_neurons(6, 5)) < 1e-12


def test_random_features_fit_and_rescaling_keeps_outputs_and_lowers_the_trace():
    strings = masked_strings(4)
    model = random_features(strings, 96, torch.Generator().manual_seed(901))
    assert farthest_output(model, strings) < 1e-10
    least = rebalanced(model, strings)
    torch.testing.assert_close(
        least.outputs(strings.tokens), model.outputs(strings.tokens), rtol=0, atol=1e-10
    )
    trace = float(zero_loss_trace(least, strings))
    assert corrected_bound(96, 4) < trace < float(zero_loss_trace(model, strings))
    # No other rescaling of a neuron is better.
    for factor in (0.9, 1.1):
        factors = torch.ones(96).double()
        factors[3] = factor
        other = OneLayerTransformer(
            least.query, least.key, factors[:, None] * least.value, least.output / factors
        )
        assert float(zero_loss_trace(other, strings)) > trace


def test_gaps_open_where_a_condition_is_broken():
    strings, model = masked_strings(4), two_neurons(4)
    unbalanced = OneLayerTransformer(model.query, model.key, 3 * model.value, model.output / 3)
    assert equality_gaps(unbalanced, strings).balance > 0.1
    value = torch.cat([model.value, model.value[:1]])
    cancelling = OneLayerTransformer(
        model.query, model.key, value, torch.cat([model.output, -model.output[:1] / 2])
    )
    assert equality_gaps(cancelling, strings).cancellation > 0.1
    sharp = OneLayerTransformer(
        torch.ones_like(model.query), torch.ones_like(model.key), *model.parameters()[2:]
    )
    assert equality_gaps(sharp, strings).attention > 0.1


def test_too_few_neurons_are_refused():
    with pytest.raises(BadInput, match="at least 2 neurons"):
        two_neurons(4, 1)
    with pytest.raises(BadInput, match="masked strings, here 48, or more"):
        random_features(masked_strings(4), 47, torch.Generator())


def test_the_gap_of_attention_is_the_farthest_from_even_on_either_side():
    """The first bracket has a lower score than the others, and is farther below its share than they above."""
    strings = masked_strings(4)
    low = torch.zeros(1, 8, dtype=torch.float64)
    low[0, 0] = 1.0
    model = replace(two_neurons(4), query=low, key=-2 * low)
    first = strings.tokens[:, 0, 0]  # 1 for ⟨, -1 for ⟩, 0 for a mask
    lowest = (torch.exp(-2 * first**2) / (3 + torch.exp(-2 * first**2))).min()
    gap = equality_gaps(model, strings).attention
    assert gap == pytest.approx(float(1 - 4 * lowest))
    assert gap > 4 * float((1 - lowest) / 3) - 1
