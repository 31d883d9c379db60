"""Rates as shares of the stable one: measured at the start, and the time that goes with them."""

from dataclasses import replace
from pathlib import Path

import pytest

from isoloss.errors import BadInput
from isoloss.experiments.languages import headline_grammar
from isoloss.experiments.schedules import RATE, RelativeSchedule, RelativeSGD, Schedule, first_step
from isoloss.measurements.derived_traces import StableRateQuantity, stable_rate
from isoloss.measurements.quantity import Subject
from isoloss.models.loading import load_masked_language_model
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import PretrainingSpecification
from isoloss.pretraining.update_rule import Training
from isoloss.progress import silent
from isoloss.results.checkpoint import read_checkpoint
from isoloss.results.estimate import Estimate

LANGUAGE = headline_grammar()
STABLE_RATE = StableRateQuantity(sentences=16, seed=900)
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


@pytest.mark.parametrize("schedule", [RelativeSchedule(0.5, 64), RelativeSchedule(0.125, 48)])
def test_the_step_of_a_time_is_the_first_that_has_reached_it(schedule: RelativeSchedule) -> None:
    for time in (0.06, 0.15, 0.4, 5.0):
        step = first_step(schedule, time)
        assert schedule.time(step - 1) < time <= schedule.time(step)


def test_the_time_is_the_theorems_in_units_of_the_curvature() -> None:
    """r² / B = (4 / η*²) η² / 4B with η = rη*."""
    relative, stable = RelativeSchedule(0.5, 64), 0.25
    absolute = Schedule(0.5 * stable, 64)
    assert relative.time_per_step == pytest.approx(4 / stable**2 * absolute.time_per_step)


@pytest.mark.parametrize(("share", "batch"), [(0.0, 8), (-0.5, 8), (float("nan"), 8), (0.5, 0)])
def test_what_makes_no_sgd_is_refused(share: float, batch: int) -> None:
    with pytest.raises(BadInput):
        RelativeSchedule(share, batch)
