import math
from dataclasses import replace

import pytest
import torch
from whole_statement import smoke_statement

from isoloss.errors import BadInput
from isoloss.results.verdict import Verdict
from isoloss.theory.minimisers import BiasedCoin, coin_logits
from isoloss.theory.nested_minimisers import SMOKE, nested_minimisers
from isoloss.theory.suite import named

COIN = BiasedCoin(0.7)


def test_the_trace_is_that_of_the_dense_hessian():
    minimisers = COIN.minimisers
    at = minimisers.reach(torch.tensor([1.0, 0.5, -0.2, 0.7, 0.3, 0.9], dtype=torch.float64))
    hessian = torch.func.hessian(lambda x: COIN.distributions.kl(coin_logits(x)))(at)
    assert minimisers.trace(at) == pytest.approx(float(hessian.trace()), rel=1e-9)
    assert minimisers.trace(at) == pytest.approx(0.21 * float(at.square().sum()), rel=1e-9)


@pytest.mark.thorough
def test_both_models_end_at_one_least_trace():
    (entry,) = named("nested-minimisers")
    statement = smoke_statement(replace(entry, smoke=replace(SMOKE, decays=8.0)))
    assert [finding.verdict for finding in statement.findings] == [Verdict.SUPPORTED] * 3
    least = 0.42 * math.log(0.7 / 0.3)
    assert [finding.predicted for finding in statement.findings] == pytest.approx([0, least, least])
    data = statement.panels[0].data
    for series in data.filter(~data["predicted"]).partition_by("series"):
        assert series["trace"].is_sorted(descending=True)
        assert series["trace"].min() > least * (1 - 1e-9)


def test_a_flow_that_is_cut_short_is_found_out():
    early = nested_minimisers(replace(SMOKE, decays=1.0))
    assert [finding.verdict for finding in early.findings[1:]] == [Verdict.NOT_SUPPORTED] * 2


def test_one_pair_is_no_larger_model():
    with pytest.raises(BadInput, match="at least two pairs"):
        nested_minimisers(replace(SMOKE, pairs=1))


def test_the_flow_that_ends_farthest_from_the_least_trace_is_told(monkeypatch):
    least = 0.42 * math.log(0.7 / 0.3)
    flows = [
        (pairs, name, [(0.0, 9.0), (1.0, end)])
        for pairs in (1, 2)
        for name, end in (("a", least), ("b", 1.0))
    ]
    monkeypatch.setattr("isoloss.theory.nested_minimisers._traces_along_flows", lambda *_: flows)
    _, small, large = nested_minimisers(SMOKE).findings
    assert small.measured == large.measured == 1.0
    assert small.verdict == large.verdict == Verdict.NOT_SUPPORTED
