"""The drift's clocks: mean steps, the inverse of the time, and rates as shares of the stable one."""

from dataclasses import replace
from pathlib import Path

import pytest

from isoloss.errors import BadInput
from isoloss.experiments.languages import headline_grammar
from isoloss.experiments.schedules import (
    RATE,
    SECOND_MOMENT_STEPS,
    AdamWSchedule,
    Clock,
    RelativeSchedule,
    RelativeSGD,
    Schedule,
    checkpoint_steps,
    first_step,
    mean_step,
)
from isoloss.measurements.derived_traces import StableRateQuantity, stable_rate
from isoloss.measurements.quantity import Subject
from isoloss.models.loading import load_masked_language_model
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.descent import AdamW, warmed_up
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import PretrainingSpecification
from isoloss.pretraining.update_rule import Training
from isoloss.progress import silent
from isoloss.results.checkpoint import read_checkpoint
from isoloss.results.estimate import Estimate


@pytest.mark.parametrize("horizon", [1, 2, 5, 200])
def test_the_mean_step_is_the_average_of_the_steps_themselves(horizon: int) -> None:
    average = 0.0
    for step in range(1, 1000):
        average += (step - average) / min(step, horizon)  # as in `WeightAverage`
        assert mean_step(step, horizon) == pytest.approx(average, rel=1e-9)


@pytest.mark.parametrize(
    ("schedule", "times"),
    [
        *((Schedule(*pace), (0.003, 0.0125, 0.2, 2.0)) for pace in ((0.4, 128), (0.1, 32), (0.03, 8))),
        *((RelativeSchedule(*pace), (0.06, 0.15, 0.4, 5.0)) for pace in ((0.5, 64), (0.125, 48))),
    ],
)
def test_the_step_of_a_time_is_the_first_that_has_reached_it(
    schedule: Clock, times: tuple[float, ...]
) -> None:
    for time in times:
        step = first_step(schedule, time)
        assert schedule.time(step - 1) < time <= schedule.time(step)


def test_four_times_the_batch_goes_a_quarter_as_far() -> None:
    assert Schedule(0.2, 32).time(700) == pytest.approx(4 * Schedule(0.2, 128).time(700))
    assert Schedule(0.4, 32).time_per_step == pytest.approx(4 * Schedule(0.2, 32).time_per_step)


@pytest.mark.parametrize(
    ("rate", "batch"), [(0.0, 8), (-0.1, 8), (float("nan"), 8), (0.1, 0), (1e-200, 8), (1e200, 8)]
)
def test_what_makes_no_sgd_is_refused(rate: float, batch: int) -> None:
    with pytest.raises(BadInput, match="a learning rate above 0 and a batch of at least 1"):
        Schedule(rate, batch)


@pytest.mark.parametrize(("share", "batch"), [(0.0, 8), (-0.5, 8), (float("nan"), 8), (0.5, 0)])
def test_what_makes_no_sgd_at_any_stable_rate_is_refused(share: float, batch: int) -> None:
    with pytest.raises(BadInput):
        RelativeSchedule(share, batch)


def test_the_time_of_adamw_is_that_of_its_rates_and_average() -> None:
    schedule = AdamWSchedule(4e-3, 32)
    rates = [warmed_up(4e-3, SECOND_MOMENT_STEPS, step) for step in range(1, 1001)]
    passed = [sum(rate**2 for rate in rates[:step]) / 4 for step in range(1, 1001)]
    assert schedule.time(150) == pytest.approx(sum(passed[:150]) / 150)
    average = sum(passed[:200]) / 200
    for step in range(201, 1001):
        average += (passed[step - 1] - average) / 200
    assert schedule.time(1000) == pytest.approx(average)


def test_the_time_of_adamw_has_no_batch_in_it() -> None:
    times = (1e-3, 2e-3, 8e-3)
    steps = checkpoint_steps(AdamWSchedule(4e-3, 32), times)
    assert steps == checkpoint_steps(AdamWSchedule(4e-3, 512), times)
    assert all(AdamWSchedule(4e-3, 32).time(step) >= time for step, time in zip(steps, times, strict=True))
    assert AdamWSchedule(8e-3, 32).time_per_step == pytest.approx(4 * AdamWSchedule(4e-3, 32).time_per_step)


LANGUAGE = headline_grammar()
STABLE_RATE = StableRateQuantity(sentences=4, seed=900)
HALF = RelativeSGD(0.5, STABLE_RATE)
MODEL = PreLayerNormTransformer(laptop_shape(16), dropout=0.0, attention="eager")


def trained(folder: Path, rule: object, start: Path | None = None, steps: int = 4) -> Path:
    """The last checkpoint of a run with two."""
    weights = read_checkpoint(start).digest if start else None
    specification = PretrainingSpecification(
        MODEL,
        rule,
        LANGUAGE.digest,
        steps,
        16,
        901 if start else 900,
        (steps // 2, steps),
        start_from=weights,
    )
    return pretrain(specification, LANGUAGE, folder, start_from=start).last.folder


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("start"), AdamW(3e-3, warm_up_steps=2))


@pytest.fixture(scope="module")
def whole(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupts, at half of the stable rate."""
    return trained(tmp_path_factory.mktemp("whole"), HALF, start)


def test_the_stable_rate_is_that_of_the_batch_asked_for(start: Path) -> None:
    subject, sixteen = Subject("", MaskedObjective(), {}, LANGUAGE), replace(STABLE_RATE, batch=16)
    drawn = sixteen.draw(LANGUAGE, MaskedObjective(), silent)
    record = sixteen.measure(load_masked_language_model(start), drawn, subject, silent).records[0]
    top, trace = (Estimate(float(record.settings[name]), 0.0, 9) for name in ("top_eigenvalue", "trace"))
    assert record.value == pytest.approx(stable_rate(top, trace, 16).value)


def test_the_rate_is_constant_from_the_first_step_on() -> None:
    model = MODEL.build(len(LANGUAGE.vocabulary), LANGUAGE.maximum_length, seed=0)
    training = Training(model, MaskedObjective(), LANGUAGE, 0, 100, 16)
    assert HALF.optimiser.descent(training).warm_up_steps == 0


@pytest.mark.thorough
def test_the_rate_is_a_share_of_the_stable_one_where_the_run_starts(
    start: Path, whole: Path, tmp_path: Path
) -> None:
    model = load_masked_language_model(start)
    subject = Subject("", MaskedObjective(), {}, LANGUAGE)
    drawn = STABLE_RATE.draw(LANGUAGE, MaskedObjective(), silent)
    stable = STABLE_RATE.measure(model, drawn, subject, silent).records[0].value
    slow = read_checkpoint(whole)
    assert slow.readings[RATE] == pytest.approx(stable / 2, rel=1e-6)
    # The same run by a rate that is given.
    fixed = read_checkpoint(trained(tmp_path / "fixed", Schedule(slow.readings[RATE], 16).rule, start))
    assert fixed.digest == slow.digest


def test_a_run_that_goes_on_keeps_the_rate_of_its_start(start: Path, whole: Path, tmp_path: Path) -> None:
    last = trained(tmp_path / "broken", HALF, start)
    (last / "model.safetensors").unlink()
    again = read_checkpoint(trained(tmp_path / "broken", HALF, start))
    assert (again.digest, again.readings) == (read_checkpoint(whole).digest, read_checkpoint(whole).readings)


def test_the_time_is_the_theorems_in_units_of_the_curvature() -> None:
    """r² / B = (4 / η*²) η² / 4B with η = rη*."""
    relative, stable = RelativeSchedule(0.5, 64), 0.25
    absolute = Schedule(0.5 * stable, 64)
    assert relative.time_per_step == pytest.approx(4 / stable**2 * absolute.time_per_step)
