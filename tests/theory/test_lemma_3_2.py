from dataclasses import replace

import numpy as np
import pytest
import torch
from small_problems import factor_problem, matrices_of
from whole_statement import verdicts

from isoloss.errors import BadInput
from isoloss.results.verdict import Verdict
from isoloss.theory.lemma_3_2 import SMOKE, approaches, exponent_findings, identity_findings, lemma_3_2
from isoloss.theory.optimiser_paths import gap_exponent

TRAINING = replace(SMOKE.training, learning_rate=1.6e-2, checkpoint_steps=(70, 80, 90), seeds=(901, 903))
SETTINGS = replace(SMOKE, seed=900, training=TRAINING)


@pytest.fixture(scope="module")
def exact():
    minimisers, start = factor_problem()
    return minimisers, minimisers.reach(start)


@pytest.fixture(scope="module")
def near(exact):
    return approaches(*exact, replace(SETTINGS, distances=(1e-2, 1e-3, 1e-4), directions=3))


def test_the_statement_at_smoke_size():
    statement = lemma_3_2(SETTINGS)
    along_runs = [f for f in statement.findings if "along" in f.name]
    rest = [f for f in statement.findings if "along" not in f.name]
    assert set(verdicts(rest).values()) == {Verdict.SUPPORTED}
    assert len(rest) == 14
    assert all(f.n == 2 and f.standard_error > 0 for f in along_runs)
    gaps, traces = (panel.data for panel in statement.panels)
    assert gaps.shape == (2 * 2 * 3 + 2, 5)
    assert traces.shape == (3 * 2 * 3, 4)
    assert dict(statement.settings)["training seeds"] == "901, 903"


@pytest.mark.thorough
def test_checkpoints_far_from_the_distribution_are_not_judged(near, monkeypatch):
    far = [replace(path[0], kl=0.021, covariance=1e6 * path[0].fisher) for path in near]
    runs = {seed: [point, *path] for seed, (point, path) in enumerate(zip(far, near, strict=True))}
    monkeypatch.setattr("isoloss.theory.lemma_3_2.exact_matrices", lambda _: {})
    monkeypatch.setattr("isoloss.theory.lemma_3_2.approaches", lambda *_: near)
    monkeypatch.setattr("isoloss.theory.lemma_3_2.checkpoint_matrices", lambda *_: runs)
    nearby, _, along, _ = lemma_3_2(SETTINGS).findings
    assert along.measured == nearby.measured


def test_a_wrong_distribution_is_found_out(exact):
    minimisers, parameters = exact
    flipped = replace(minimisers.distributions, distribution=minimisers.distributions.distribution.flip(1))
    other = replace(minimisers, distributions=flipped)
    findings = identity_findings({"factors": matrices_of(other, parameters)}, 1e-5)
    assert set(verdicts(findings).values()) == {Verdict.NOT_SUPPORTED}


def test_a_covariance_of_two_samples_is_found_out(exact):
    minimisers, parameters = exact
    right = matrices_of(minimisers, parameters)
    wrong = replace(right, covariance=right.covariance / 2)
    findings = verdicts(identity_findings({"factors": wrong}, 1e-5))
    assert findings["Σ - ∇²L, factors"] == findings["largest entry, factors"] == Verdict.NOT_SUPPORTED
    assert findings["∇²L - F, factors"] == Verdict.SUPPORTED


def test_both_gaps_close_as_the_root_of_kl(near):
    assert set(verdicts(exponent_findings(near, "near", 0.1)).values()) == {Verdict.SUPPORTED}


def test_a_hessian_without_its_curvature_term_is_found_out(near):
    gauss_newton = [[replace(point, hessian=point.fisher) for point in path] for path in near]
    of_covariance, of_hessian = exponent_findings(gauss_newton, "near", 0.1)
    assert of_covariance.verdict == Verdict.SUPPORTED
    assert of_hessian.verdict == Verdict.NOT_SUPPORTED


def test_a_covariance_that_closes_as_kl_itself_is_found_out(near):
    """As it would if the model's own labels were drawn twice: only ∇L ∇Lᵀ is left."""
    wrong = [
        [replace(point, covariance=point.fisher + point.kl * torch.eye(len(point.fisher))) for point in path]
        for path in near
    ]
    of_covariance, _ = exponent_findings(wrong, "near", 0.1)
    assert of_covariance.measured == pytest.approx(1.0, abs=0.05)
    assert of_covariance.verdict == Verdict.NOT_SUPPORTED


def test_the_exponents_error_bar_covers_what_made_the_points():
    """Noisy paths of slope 1/2, each with a level of its own: 95 % intervals hold it about as often."""
    generator = np.random.default_rng(900)
    held = 0
    for _ in range(200):
        logs = [(generator.uniform(-9, -4, 6), generator.normal(0, 0.3)) for _ in range(8)]
        paths = [
            [(np.exp(x), np.exp(0.5 * x + level + generator.normal(0, 0.2))) for x in xs]
            for xs, level in logs
        ]
        estimate = gap_exponent(paths)
        held += abs(estimate.value - 0.5) < 1.96 * estimate.standard_error
    assert 0.87 <= held / 200 <= 0.99


def test_too_few_points_for_an_exponent_are_refused():
    with pytest.raises(BadInput, match="take more"):
        gap_exponent([[(0.1, 0.2), (0.2, 0.3)], []])
