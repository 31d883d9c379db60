"""Matching by loss: against a known curve, the errors by simulation, and the refusals."""

import math

import pytest
import torch

from isoloss.errors import BadInput
from isoloss.measurements.matched_losses import (
    MatchedCheckpoint,
    MatchedLosses,
    StepCurve,
    interpolated_to_loss,
)
from isoloss.results.estimate import Estimate
from isoloss.results.verdict import Verdict

STEPS = (100, 200, 400, 800)


def curve(run: str, values: tuple[float, ...], error: float = 0.001) -> StepCurve:
    return StepCurve(run, STEPS[: len(values)], tuple(Estimate(value, error, 50) for value in values))


def test_on_a_curve_linear_in_the_logarithm_interpolation_is_exact() -> None:
    fast = curve("fast", tuple(5 - 0.5 * math.log(step) for step in STEPS))
    slow = curve("slow", tuple(5 - 0.4 * math.log(step) for step in STEPS))
    matched = interpolated_to_loss([fast, slow], threshold=0.01, loss=2.4)
    assert [point.step for point in matched.points] == pytest.approx(
        [math.exp(2.6 / 0.5), math.exp(2.6 / 0.4)]
    )
    assert [point.log_step_error for point in matched.points] == pytest.approx([0.001 / 0.5, 0.001 / 0.4])
    assert all(point.loss.value == 2.4 for point in matched.points)
    assert matched.verdict is Verdict.SUPPORTED
    # By default the lowest loss that both reach, which is the slower one's last.
    assert interpolated_to_loss([fast, slow], threshold=0.01).points[1].step == 800


def test_the_first_fall_counts_and_a_checkpoint_at_the_loss_is_taken_as_it_is() -> None:
    wavy = curve("wavy", (3.0, 2.0, 2.5, 1.0))
    plain = curve("plain", (2.25, 2.0, 1.5, 1.2))
    first, second = interpolated_to_loss([wavy, plain], threshold=0.01, loss=2.25).points
    assert first.step == pytest.approx(100 * 2**0.75)
    assert (second.step, second.log_step_error) == (100, 0.0)
    for point in interpolated_to_loss([wavy, plain], threshold=0.01, loss=2.0).points:
        assert point.step == 200


def test_a_loss_just_above_the_last_is_reached_by_the_last_step() -> None:
    """Rounding would put it after that one."""
    lower = StepCurve("lower", (100, 109), (Estimate(3.0, 0.1, 50), Estimate(2.0, 0.1, 50)))
    above = StepCurve(
        "above", (100, 109), (Estimate(3.0, 0.1, 50), Estimate(math.nextafter(2.0, 3), 0.1, 50))
    )
    assert interpolated_to_loss([lower, above], threshold=0.01).points[0].step == 109


def test_the_run_whose_loss_is_the_target_has_no_error_in_its_step() -> None:
    """The others have its error beside their own: theirs is the step at which the two losses are the same."""
    runs = [curve("first", (3.0, 2.0, 1.5), 0.03), curve("lower", (3.0, 2.0, 1.0), 0.04)]
    for order in (runs, runs[::-1]):
        first, lower = sorted(interpolated_to_loss(order, threshold=0.1).points, key=lambda point: point.run)
        assert (first.step, first.log_step_error) == (400, 0.0)
        assert (first.loss.value, first.loss.standard_error) == (1.5, 0.03)
        assert lower.log_step_error == pytest.approx(0.05 * math.log(2))
    known = interpolated_to_loss(runs, threshold=0.1, loss=1.5).points
    assert [point.log_step_error for point in known] == pytest.approx(
        [0.03 * math.log(2) / 0.5, 0.04 * math.log(2)]
    )


@pytest.mark.parametrize("shared", [False, True])
def test_errors_cover_simulated_measurements(shared: bool) -> None:
    """Log-step error and another quantity's error at the match, for independent and for common noise."""
    generator = torch.Generator().manual_seed(0)
    truth, error = (3.0, 2.0, 1.5, 1.3), 0.02
    noise = error * torch.randn(1500, 1 if shared else 4, generator=generator, dtype=torch.float64)
    other = curve("other", truth, error=1e-6)
    found, traces = [], []
    trace = StepCurve("run", STEPS, tuple(Estimate(value, 0.0, 50) for value in (9.0, 6.0, 5.0, 4.0)))
    for draw in noise.expand(1500, 4).tolist():
        noisy = curve("run", tuple(v + d for v, d in zip(truth, draw, strict=True)), error)
        point = interpolated_to_loss([noisy, other], threshold=0.1, loss=1.8).points[0]
        found.append(math.log(point.step))
        traces.append(trace.at(point.step).value)
    stated = interpolated_to_loss([curve("run", truth, error), other], threshold=0.1, loss=1.8).points[0]
    at_match = trace.at(stated.step, stated.log_step_error)
    spread, trace_spread = float(torch.tensor(found).std()), float(torch.tensor(traces).std())
    if shared:  # the bound is reached
        assert stated.log_step_error == pytest.approx(spread, rel=0.1)
        assert at_match.standard_error == pytest.approx(trace_spread, rel=0.1)
    else:
        assert 0.6 * stated.log_step_error < spread < stated.log_step_error
        assert 0.6 * at_match.standard_error < trace_spread < at_match.standard_error


def test_at_a_checkpoint_the_error_takes_the_slope_before_it_as_that_of_its_step_does() -> None:
    found = curve("run", (3.0, 2.0, 1.9, 1.8)).at(200, log_step_error=0.1)
    assert found.value == 2.0
    assert found.standard_error == pytest.approx(math.hypot(0.001, 0.1 / math.log(2)))
    first = curve("run", (3.0, 2.0)).at(100, log_step_error=0.1)
    assert first.standard_error == pytest.approx(found.standard_error)


@pytest.mark.parametrize("counts", [(50, 20), (20, 50)])
def test_between_checkpoints_the_fewer_sentences_count(counts: tuple[int, int]) -> None:
    estimates = tuple(Estimate(value, 0.1, n) for value, n in zip((3.0, 2.0), counts, strict=True))
    assert StepCurve("run", (100, 200), estimates).at(150).n == 20


@pytest.mark.parametrize(
    ("errors", "threshold", "verdict"),
    [
        ((0.001, 0.001), 0.05, Verdict.SUPPORTED),
        ((0.001, 0.001), 0.02, Verdict.NOT_SUPPORTED),
        ((0.02, 0.02), 0.04, Verdict.INCONCLUSIVE),
        ((0.001, 0.02), 0.05, Verdict.INCONCLUSIVE),
        ((0.02, 0.001), 0.05, Verdict.INCONCLUSIVE),
        ((0.01, 0.01), 0.055, Verdict.INCONCLUSIVE),  # which either error alone would decide
    ],
)
def test_the_verdict_takes_the_error_of_the_spread_into_account(
    errors: tuple[float, float], threshold: float, verdict: Verdict
) -> None:
    points = tuple(
        MatchedCheckpoint(run, 100, Estimate(loss, error, 50))
        for run, loss, error in zip("ab", (1.0, 1.03), errors, strict=True)
    )
    assert MatchedLosses(points, threshold).verdict is verdict


def test_what_cannot_be_matched_is_refused_with_the_ranges() -> None:
    high, low = curve("high", (3.0, 2.5)), curve("low", (1.5, 1.25))
    ranges = "high 2.5 to 3, low 1.25 to 1.5"
    with pytest.raises(BadInput, match=f"no loss in common: {ranges}"):
        interpolated_to_loss([high, low], threshold=0.1)
    with pytest.raises(BadInput, match=r"from 1\.25 to 1\.5"):
        interpolated_to_loss([low, curve("both", (3.0, 1.0))], threshold=0.1, loss=2.0)
    with pytest.raises(BadInput, match="at least 2 runs"):
        interpolated_to_loss([high], threshold=0.1)
    with pytest.raises(BadInput, match="above 0"):
        interpolated_to_loss([high, high], threshold=0.0)


def test_curves_that_are_none_are_refused_and_nothing_is_extrapolated() -> None:
    fine = Estimate(1.0, 0.1, 5)
    for steps, estimates in (
        ((), ()),
        ((0,), (fine,)),
        ((2, 1), (fine, fine)),
        ((1, 2), (fine,)),
        ((1,), (Estimate(math.nan, 0.1, 5),)),
    ):
        with pytest.raises(BadInput, match="the run x"):
            StepCurve("x", steps, estimates)
    single = StepCurve("x", (100,), (fine,))
    assert single.at(100) == fine
    for step in (99.0, 101.0):
        with pytest.raises(BadInput, match="lies outside"):
            single.at(step)
