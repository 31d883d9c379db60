import polars as pl
import pytest
import torch

from isoloss.errors import IsolossError
from isoloss.theory.flattest_solution import descent_findings, flattest_from
from isoloss.theory.one_layer_transformer import farthest_output, masked_strings, zero_loss_trace
from isoloss.theory.zero_loss_solutions import MISS, corrected_bound, fitted, random_weights, two_neurons

STRINGS = masked_strings(4)


def start(seed):
    return random_weights(STRINGS, 12, torch.Generator().manual_seed(seed))


@pytest.mark.thorough
def test_a_descent_keeps_zero_loss_lowers_the_trace_and_stays_above_the_bound():
    before = start(903)
    descent = flattest_from(before, STRINGS, 25)
    assert len(descent.models) == len(descent.traces) == 26
    assert all(a > b for a, b in zip(descent.traces, descent.traces[1:], strict=False))
    for model, trace in zip(descent.models, descent.traces, strict=True):
        assert farthest_output(model, STRINGS) <= MISS
        assert trace == pytest.approx(float(zero_loss_trace(model, STRINGS)))
    bound = corrected_bound(12, 4)
    assert descent.traces[0] > 2 * bound
    assert bound < descent.traces[-1] < 1.1 * bound
    assert float(descent.end.attention(STRINGS.tokens).max()) == pytest.approx(1 / 4, abs=0.01)


def test_no_step_lowers_the_trace_of_the_two_neurons():
    descent = flattest_from(two_neurons(4), STRINGS, 5)
    assert descent.traces[-1] == pytest.approx(corrected_bound(2, 4), rel=1e-9)


def test_too_few_neurons_and_a_start_with_loss_are_refused():
    with pytest.raises(IsolossError, match="did not fit 48 masked strings"):
        random_weights(STRINGS, 1, torch.Generator().manual_seed(901))
    model = two_neurons(4)
    with pytest.raises(IsolossError, match="begin at zero loss"):
        flattest_from(model.with_flat(1.1 * model.flat()), STRINGS, 1)
    assert farthest_output(fitted(model.with_flat(1.1 * model.flat()), STRINGS), STRINGS) <= MISS


def test_of_a_descent_its_end_counts():
    """One is uneven at the bound, one was even on its way to a kink."""
    rows = [("1", 0, 1.5, 0.0), ("1", 5, 1.0, 0.25), ("2", 0, 1.5, 0.0), ("2", 5, 1.1, 0.5)]
    table = pl.DataFrame(rows[::-1], schema=["seed", "step", "ratio", "unevenness"], orient="row")
    least, share, unevenness = descent_findings(table, reached=1e-3, uneven=0.03)
    assert (least.measured, share.measured, unevenness.measured) == (1.0, 0.5, 0.25)
