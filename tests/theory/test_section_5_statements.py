"""Every statement at its smoke size, and every check on a wrong variant, which it must not support."""

import polars as pl
import pytest
import torch
from whole_statement import smoke_statement, verdicts

from isoloss.errors import BadInput
from isoloss.models.enlarging import Enlargement, Recipe, enlarged, exact_form
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.results.verdict import Verdict
from isoloss.theory import lemma_g_7
from isoloss.theory.appendix_b_4 import SMOKE, feed_forward_finding, score_findings, trace_findings
from isoloss.theory.downstream_error import FULL as ERROR_FULL
from isoloss.theory.downstream_error import SMOKE as ERROR_SMOKE
from isoloss.theory.downstream_error import error_findings, expected_flattest_error
from isoloss.theory.enlarged_identities import (
    documented_factor,
    random_tokens,
    random_transformer,
    score_change,
    widened,
)
from isoloss.theory.fact_g_2 import firing_findings, in_pairs, least_reach, mean_inputs
from isoloss.theory.flattest_solution import descent_findings
from isoloss.theory.lemma_g_1 import bound_findings
from isoloss.theory.lemma_g_3 import counterexample_findings, nudged_findings
from isoloss.theory.lemma_g_4 import dense_trace, factor, identity_findings
from isoloss.theory.one_layer_transformer import hessian_trace, masked_strings
from isoloss.theory.suite import SUITE, named
from isoloss.theory.theorem_5_1 import SMOKE as FAILURE_SMOKE
from isoloss.theory.theorem_5_1 import counted_failure, failure_findings, paper_failure, simulated_failure
from isoloss.theory.theorem_g_6 import feature_findings
from isoloss.theory.zero_loss_solutions import (
    EqualityGaps,
    corrected_bound,
    paper_bound,
    random_features,
    two_neurons,
)

CONTRADICTED = {
    "paper_bound",
    "unevenness_of_a_solution_at_the_bound",
    "failure_probability_paper",
    "post_ln_papers_score_change",
}
"""What the paper's text says and the arithmetic does not."""


OF_THEIR_OWN = ("lemma-3.2", "theorem-3.3", "adamw", "nested-minimisers")
EXACT = [entry for entry in SUITE if not entry.name.startswith(OF_THEIR_OWN)]
"""Those whose smallest size already has no sampling error to speak of; SGD's, AdamW's and that of nested
minimisers have tests of their own."""


@pytest.mark.parametrize("entry", EXACT, ids=lambda entry: entry.name)
def test_the_smoke_size_supports_what_holds_and_contradicts_what_does_not(entry):
    for finding in smoke_statement(entry).findings:
        expected = Verdict.NOT_SUPPORTED if finding.name in CONTRADICTED else Verdict.SUPPORTED
        assert finding.verdict == expected, finding


@pytest.mark.parametrize(
    ("bound", "expected"),
    [(corrected_bound(8, 4), Verdict.SUPPORTED), (paper_bound(4), Verdict.NOT_SUPPORTED)],
)
def test_a_bound_of_another_constant_fails(bound, expected):
    trace = float(hessian_trace(two_neurons(4, 8), masked_strings(4)))
    found = pl.DataFrame({"ratio": [trace / bound]})
    row = {"neurons": 8, "trace": trace, "corrected": bound, "paper": paper_bound(4)}
    verdict = verdicts(bound_findings(found, pl.DataFrame([row]), EqualityGaps(0, 0, 0), 1e-8))
    assert verdict["least_trace_over_bound"] == verdict["flattest_trace_off_bound"] == expected
    assert verdict["equality_conditions_gap"] == Verdict.SUPPORTED


@pytest.mark.parametrize("gaps", [(1e-3, 0, 0), (0, 1e-3, 0), (0, 0, 1e-3)])
def test_conditions_that_do_not_hold_fail(gaps):
    row = {"neurons": 8, "trace": 1.0, "corrected": 1.0, "paper": 1.0}
    findings = bound_findings(pl.DataFrame({"ratio": [1.0]}), pl.DataFrame([row]), EqualityGaps(*gaps), 1e-8)
    assert findings[-1].verdict == Verdict.NOT_SUPPORTED


def test_a_counterexample_that_is_none_fails():
    strings = masked_strings(4)
    assert [finding.verdict for finding in counterexample_findings(two_neurons(4), strings)] == [
        Verdict.SUPPORTED, Verdict.SUPPORTED,
    ]  # fmt: skip
    far = random_features(strings, 96, torch.Generator().manual_seed(901))
    assert counterexample_findings(far, strings)[0].verdict == Verdict.NOT_SUPPORTED


NAMES = ("two neurons", "split neurons")


def test_traces_beside_kinks_of_another_size_fail():
    right = [("two neurons", True, 1.0), ("split neurons", True, 1.5), ("two neurons", False, 7.0)]
    # One nudge of several, to a smaller or a larger trace.
    for off in ([], [(1.01, 1.0)], [(0.99, 1.6)]):
        rows = right + [(name, True, ratio) for each in off for name, ratio in zip(NAMES, each, strict=True)]
        table = pl.DataFrame(rows, schema=["solution", "nudged", "ratio"], orient="row")
        found = set(verdicts(nudged_findings(table, 1e-3)).values())
        assert found == {Verdict.NOT_SUPPORTED if off else Verdict.SUPPORTED}


def test_the_papers_half_of_the_second_derivative_and_a_wrong_closed_form_fail():
    strings, two, three = masked_strings(4), two_neurons(4), two_neurons(4, 3)
    for off, expected in ((1, Verdict.SUPPORTED), (1 / 2, Verdict.NOT_SUPPORTED)):
        closed = off * float(hessian_trace(three, strings))
        table = pl.DataFrame({"dense": [dense_trace(three, strings)], "closed_form": [closed]})
        found = identity_findings([off * factor(two, strings)], table, 1e-7)
        assert [finding.verdict for finding in found] == [expected] * 2


def test_descents_that_end_elsewhere_fail():
    ends = {
        "seed": ["1", "2", "3"],
        "step": [9, 9, 9],
        "ratio": [1.3, 1.2, 1.0001],
        "unevenness": [0.3, 0.3, 0.2],
    }
    found = verdicts(descent_findings(pl.DataFrame(ends), 1e-3, 0.03))
    assert found == {
        "least_descended_trace_over_bound": Verdict.SUPPORTED,
        "share_of_descents_at_bound": Verdict.NOT_SUPPORTED,
        "unevenness_at_bound": Verdict.NOT_SUPPORTED,
    }
    below = pl.DataFrame(ends | {"ratio": [1.3, 1.2, 0.9]})
    assert descent_findings(below, 1e-3, 0.03)[0].verdict == Verdict.NOT_SUPPORTED
    none = pl.DataFrame(ends | {"ratio": [1.3, 1.2, 1.1]})
    assert set(verdicts(descent_findings(none, 1e-3, 0.03)).values()) == {Verdict.NOT_SUPPORTED}


def test_the_papers_failure_in_place_of_the_corrected_one_fails():
    length, n = FAILURE_SMOKE.length, FAILURE_SMOKE.samples
    simulated = simulated_failure(two_neurons(length), n, FAILURE_SMOKE.repetitions, seed=901)
    counted, printed = counted_failure(length, n), paper_failure(n)
    wrong = verdicts(failure_findings(FAILURE_SMOKE, printed, printed, printed, simulated))
    assert wrong["failure_probability_simulated"] == Verdict.NOT_SUPPORTED
    assert wrong["failure_probability_paper"] == Verdict.SUPPORTED
    wrong = verdicts(failure_findings(FAILURE_SMOKE, counted, printed, printed, simulated))
    assert wrong["failure_probability_exact"] == Verdict.NOT_SUPPORTED


def test_random_features_of_another_size_fail():
    sizes = {"length": [4, 4], "neurons": [100, 400], "norm": [7.0, 7.0]}
    table = pl.DataFrame(sizes | {"balanced": [0.9, 3.0], "miss": [0.1, 0.0]})
    found = feature_findings(table, {6: 1.0}, 0.15)
    assert [finding.verdict for finding in found] == [Verdict.NOT_SUPPORTED] * 4


def test_errors_that_are_not_the_expected_ones_fail():
    n, length = ERROR_SMOKE.compared, ERROR_SMOKE.length
    expected = expected_flattest_error(length, n)
    spread = torch.linspace(-0.1, 0.1, 400).double()
    losses = {("two neurons", n): expected + 1 + spread, ("random features", n): expected + spread}
    assert set(verdicts(error_findings(ERROR_SMOKE, losses)).values()) == {Verdict.NOT_SUPPORTED}


@pytest.mark.parametrize("factor", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("settings", [ERROR_FULL, ERROR_SMOKE])
def test_errors_of_another_probability_of_failure_fail(settings, factor):
    """The error of a sample is T, T / 2 or 0, as no string, or none of one sign, has a target but zero."""
    n = settings.compared
    expected = expected_flattest_error(settings.length, n)
    drawn = torch.rand(settings.repetitions, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    errors = settings.length / 2 * (drawn < 2 / settings.length * factor * expected).double()
    losses = {("two neurons", n): errors, ("random features", n): errors + 1 + drawn}
    flattest, _ = error_findings(settings, losses)
    assert flattest.verdict == Verdict.NOT_SUPPORTED
    right = settings.length / 2 * (drawn < 2 / settings.length * expected).double()
    flattest, _ = error_findings(settings, losses | {("two neurons", n): right})
    assert flattest.verdict == Verdict.SUPPORTED


def test_a_bound_on_a_tiny_probability_is_one():
    """At 64 strings both numbers are below what rounding leaves of one."""
    settings = FAILURE_SMOKE
    counted, printed = counted_failure(10, 64), paper_failure(64)
    simulated = simulated_failure(two_neurons(4), 3, 100, seed=901)
    found = verdicts(failure_findings(settings, counted, counted, printed, simulated))
    assert found["failure_probability_exact"] == Verdict.SUPPORTED
    assert found["failure_probability_paper"] == Verdict.NOT_SUPPORTED


def undivided(weights, factor):
    """A wrong enlargement: the inner matrices are tiled and not divided by k."""
    first, *inner, last = widened(weights, factor)
    return [first, *(factor * weight for weight in inner), last]


def balanced_otherwise(weights, factor):
    """The same outputs, and another trace: the first matrix tiled and not divided, the last divided twice."""
    first, *inner, last = widened(weights, factor)
    return [factor**0.5 * first, *inner, last / factor**0.5]


def test_an_enlarging_without_the_division_fails():
    found = verdicts(feed_forward_finding(SMOKE, undivided))
    assert set(found.values()) == {Verdict.NOT_SUPPORTED}
    found = verdicts(feed_forward_finding(SMOKE, balanced_otherwise))
    assert found["feed_forward_output_change"] == Verdict.SUPPORTED
    assert found["feed_forward_trace_change"] == Verdict.NOT_SUPPORTED


def undivided_form(name, dimensions, small, by):
    """A wrong form: the MLP's matrices are tiled and not divided by k."""
    recipe = exact_form(name, dimensions, small, by)
    return Recipe(recipe.source, 1, recipe.constant) if "intermediate" in name else recipe


def test_a_form_without_the_division_fails():
    model = random_transformer(PreLayerNormTransformer, 901)
    large = enlarged(model, Enlargement(width=2), undivided_form)
    change = score_change(model, large, random_tokens(2, 901))
    row = {"architecture": "pre-LN", "form": "exact", "change": change}
    assert score_findings(pl.DataFrame([row]), SMOKE)[0].verdict == Verdict.NOT_SUPPORTED


def test_traces_that_change_otherwise_fail():
    rows = [
        {
            "kind": kind,
            "form": "exact",
            "measured": measured,
            "predicted": documented_factor(kind, "exact", 2),
        }
        for kind, measured in (("matrices", 2.0), ("embeddings", 2.0))
    ]
    assert set(verdicts(trace_findings(pl.DataFrame(rows))).values()) == {Verdict.NOT_SUPPORTED}


def test_a_name_that_is_none_is_refused():
    with pytest.raises(BadInput, match=r"'theorm-g.6'; did you mean 'theorem-g.6'"):
        named("theorm-g.6")


def test_a_solution_that_cancels_contradicts_fact_g_2_and_one_that_does_not_its_opposite():
    strings = masked_strings(4)
    random = random_features(strings, 96, torch.Generator().manual_seed(901))
    found = firing_findings((random,), two_neurons(4), strings)
    assert [finding.verdict for finding in found] == [Verdict.NOT_SUPPORTED] * 2


def test_the_least_reach_is_what_descent_over_directions_finds():
    """By many random starts of projected subgradient steps, an upper bound that comes close."""
    inputs = mean_inputs(4)
    generator = torch.Generator().manual_seed(901)
    v = torch.nn.functional.normalize(torch.randn(200, 8, generator=generator, dtype=torch.float64), dim=1)
    for step in range(1500):
        v = torch.nn.functional.normalize(
            v - 0.3 / (1 + step) ** 0.7 * inputs[(v @ inputs.T).argmax(1)], dim=1
        )
    found = float((v @ inputs.T).amax(1).min())
    assert least_reach(inputs) == pytest.approx(found, rel=0.02)
    assert least_reach(inputs) <= found + 1e-12


def test_inputs_that_leave_a_direction_out_are_told():
    flat = torch.eye(4).double()[:3]
    assert not in_pairs(flat)
    assert in_pairs(torch.cat([flat, -flat]))
    beside = torch.tensor([[1.0, 1.0], [1.0, -1.0], [2.0, 0.0]], dtype=torch.float64)
    assert least_reach(beside) < 0


@pytest.mark.parametrize(
    ("changed", "share", "difference"),
    [
        (lambda right, v: right, Verdict.SUPPORTED, Verdict.SUPPORTED),
        (lambda right, v: right / 2, Verdict.NOT_SUPPORTED, Verdict.NOT_SUPPORTED),
        # Even in h, and so without a share of a target that is odd.
        (lambda right, v: right + v.norm(dim=1) / 4, Verdict.SUPPORTED, Verdict.NOT_SUPPORTED),
    ],
)
def test_another_output_weight_is_not_lemma_g_7s(changed, share, difference, monkeypatch):
    settings, right = lemma_g_7.ENTRY.smoke, lemma_g_7.output_weight
    monkeypatch.setattr(lemma_g_7, "output_weight", lambda neurons: changed(right(neurons), neurons))
    found = lemma_g_7.mean_findings(4, *lemma_g_7.means_of_neurons(settings, 4), 0.05)
    assert [finding.verdict for finding in found] == [share, difference]
