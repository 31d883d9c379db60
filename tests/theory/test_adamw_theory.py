import math
from dataclasses import replace

import pytest
import torch
from small_problems import factor_problem, matrices_of
from torch.func import grad

from isoloss.errors import BadInput
from isoloss.results.verdict import Verdict
from isoloss.theory import adamw_coin, adamw_factors
from isoloss.theory.adamw_coin import CopiedCoin
from isoloss.theory.adamw_factors import adamw_drift
from isoloss.theory.minimisers import BiasedCoin, Minimisers
from isoloss.theory.optimiser_paths import SGDSettings, adamw_paths, sampled_gradient

MODEL = CopiedCoin(BiasedCoin(0.6), 4)
MINIMISERS = Minimisers(MODEL.logits, MODEL.coin.distributions)


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("memory", [0.0, 0.3, 3.0])
def test_the_coins_drift_is_its_closed_form(memory, batch_size):
    at = MODEL.least_trace
    drift = adamw_drift(MINIMISERS, at, memory, batch_size)
    difference, nu_plus_v = float(MODEL.difference(at)), float(4 * at[0] + at[1:].sum())
    returning = math.sqrt(batch_size * 0.6 * 0.4) * nu_plus_v
    expected = -4 / (2 * MODEL.coin.logit) * difference * returning / (returning + memory)
    assert float(MODEL.difference(drift)) == pytest.approx(expected)
    assert float(at[0] * drift[1:].sum() + at[1:].sum() * drift[0]) == pytest.approx(0, abs=1e-12)  # uV stays
    decayed = MODEL.decay(1e-6, memory, batch_size) / 1e-6
    assert decayed == pytest.approx(-expected / difference, rel=1e-4)


def test_a_slow_moments_drift_is_sgds_in_fixed_coordinates():
    """The limit of Theorem 3.3 for θ = D^½ φ, D held at the point, by the dense Hessian."""
    minimisers, start = factor_problem(words=2, rank=2)
    at = minimisers.reach(start)
    hessian = matrices_of(minimisers, at).hessian
    assert torch.allclose(minimisers.fisher_diagonal(at), hessian.diagonal())
    for batch_size in (1, 9):
        scale = (batch_size / hessian.diagonal()).sqrt()
        slope = grad(lambda x, scale=scale: (scale * minimisers.fisher_diagonal(x)).sum())(at)
        values, vectors = torch.linalg.eigh(scale.sqrt()[:, None] * hessian * scale.sqrt())
        along = vectors[:, values < 1e-10 * values[-1]]
        expected = -scale.sqrt() * (along @ (along.T @ (scale.sqrt() * slope))) / (4 * batch_size)
        assert torch.allclose(adamw_drift(minimisers, at, 0.0, batch_size), expected, atol=1e-8)


def test_runs_are_those_of_torchs_adamw():
    minimisers, start = factor_problem(words=2, rank=2)
    at, samples = minimisers.reach(start), SGDSettings(0.01, 2, 3, seed=900)
    (ends,) = adamw_paths(minimisers, at, samples, 2.0, [20 * 0.01**2])
    leaf = at.repeat(3, 1).requires_grad_(True)
    optimiser = torch.optim.AdamW([leaf], lr=0.01, betas=(0.0, 0.98), eps=0.0, weight_decay=0.0)
    optimiser.state[leaf] = {
        "step": torch.tensor(1e6),  # both moments are as after long training, and need no correction
        "exp_avg": torch.zeros_like(leaf),
        "exp_avg_sq": (minimisers.fisher_diagonal(at) / 2).repeat(3, 1),
    }
    gradient_at = sampled_gradient(minimisers, samples)
    for _ in range(20):
        leaf.grad = gradient_at(leaf.detach())
        optimiser.step()
    assert torch.allclose(ends, leaf.detach(), atol=1e-12)


@pytest.fixture(scope="module")
def coin():
    return adamw_coin.adamw_coin(adamw_coin.SMOKE)


def test_the_coins_runs_agree_with_the_closed_form(coin):
    assert [finding.verdict for finding in coin.findings] == [Verdict.SUPPORTED] * 3
    assert coin.findings[-1].predicted > 1.01  # where equation (1) would have 1
    assert coin.panels[0].data.height == 2 * 2 * 2


def test_another_rate_or_clock_is_found_out(coin):
    """Without the second moment's memory in the prediction; and by SGD's clock, with the batch in it."""
    one, four, _ = coin.findings
    assert replace(one, predicted=1.0).verdict == Verdict.NOT_SUPPORTED
    assert replace(four, predicted=one.predicted / 4).verdict == Verdict.NOT_SUPPORTED


def test_the_trace_rises_as_with_the_slowest_second_moment():
    """By the closed form at the start's least trace and where D then is; the faster moments drift less."""
    start, times = float(MODEL.difference(MODEL.least_trace)), (0.0, 0.1)
    runs = [
        adamw_coin.CoinRuns(
            memory, SGDSettings(rate, 1, 2, 0), times, start * torch.tensor([[1.0, 1.0], [0.9, 0.7]]).double()
        )
        for memory in (3.0, 0.5, 1.0)
        for rate in (0.02, 0.01)
    ]
    *_, rise = adamw_coin.coin_findings(MODEL, runs, 0.05)
    ratios = [
        float(MODEL.trace(torch.tensor(start * math.exp(-MODEL.decay(0.1, memory, 1)))))
        / float(MODEL.trace(torch.tensor(start)))
        for memory in (0.5, 1.0, 3.0)
    ]
    assert rise.predicted == pytest.approx(ratios[0], rel=1e-6)
    assert ratios == sorted(ratios, reverse=True)


def test_coins_that_cannot_tell_are_refused():
    for heads, copies in ((0.4, 4), (0.6, 1)):
        with pytest.raises(BadInput, match="prefers heads"):
            CopiedCoin(BiasedCoin(heads), copies)


def test_factors_at_the_smallest_size_follow_the_flow():
    settings = replace(adamw_factors.SMOKE, paths=20)
    statement = adamw_factors.adamw_factors(settings)
    fall, nearest, others = statement.findings
    assert fall.verdict != Verdict.NOT_SUPPORTED
    assert nearest.measured < others.measured / 2
    roots = statement.panels[0].data.filter(series="AdamW's flow, B = 1")["roots"]
    assert roots[1] < roots[0]


def test_the_error_of_the_distances_is_that_of_their_difference():
    """Where all lies on one line, a mean end that is off by e has the difference off by 3 e."""
    minimisers, start = factor_problem(words=2, rank=2)
    start = minimisers.reach(start)
    along = torch.zeros_like(start)
    along[0] = 1e-3
    steps = 3 + 0.3 * torch.randn(40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ends = start + (1 + steps)[:, None] * along
    runs = adamw_factors.FactorRuns(
        1, (0.02, 0.01), (ends, ends), start + along, start + 30 * along, (start + 50 * along)[None]
    )
    _, nearest, others = adamw_factors.factor_findings(minimisers, start, runs, tolerance=0.1)
    mean = float(steps.mean())
    assert (nearest.measured, others.predicted) == pytest.approx((mean, 2 * mean))
    assert others.measured == pytest.approx(29 - mean)
    assert nearest.standard_error == pytest.approx(float(steps.std()) / 40**0.5)
    assert others.standard_error == pytest.approx(3 * nearest.standard_error)
