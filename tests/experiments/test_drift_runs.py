"""The planned runs of the drift."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from isoloss.errors import BadInput
from isoloss.experiments.drift_runs import DRIFT_RUNS, DriftRuns, every_drift_run
from isoloss.experiments.experiment_jobs import shared
from isoloss.experiments.scale import scale_named
from isoloss.experiments.schedules import Schedule
from isoloss.experiments.suite.drift import drift, with_drift
from isoloss.experiments.suite.figure_1 import figure_1

SMOKE, LAPTOP, NIGHT = (DRIFT_RUNS[name] for name in ("smoke", "laptop", "night"))


def test_every_pace_has_its_checkpoints_at_the_same_times() -> None:
    scale = scale_named("laptop")
    runs = drift(scale, LAPTOP).runs
    for run in runs:
        labels = dict(run.labels)
        if labels["drift"] != "drift":
            continue
        schedule = Schedule(run.update_rule.learning_rate, run.batch_size)
        assert str(schedule) == labels["pace"]
        for step, time in zip(run.checkpoint_steps, LAPTOP.times, strict=True):
            assert schedule.time(step) == pytest.approx(time, abs=schedule.time_per_step)
        assert (run.update_rule.momentum, run.update_rule.warm_up_share, run.architecture.dropout) == (
            0,
            0,
            0,
        )
        assert run.averaging_horizon == schedule.horizon
    schedules = len(LAPTOP.schedules) + 1
    assert len(runs) == (schedules + 1) * len(LAPTOP.widths) * len(scale.seeds)


def test_in_short_three_paces_of_one_width_start_where_the_whole_does() -> None:
    short = LAPTOP.in_short
    assert (
        short.schedules
        == LAPTOP.short_schedules
        == (Schedule(0.1, 32), Schedule(0.2, 64), Schedule(0.4, 128))
    )
    assert len({schedule.learning_rate / schedule.batch_size for schedule in short.schedules}) == 1
    scale = scale_named("laptop")
    task = scale.grammar.tasks[1]
    of_whole, of_short = (every_drift_run(scale, drift, task) for drift in (LAPTOP, short))
    origins = [{run.digest for run in runs if run.continues is None} for runs in (of_whole, of_short)]
    assert origins[1] < origins[0]


def test_without_short_paces_the_short_form_is_a_part_of_the_whole() -> None:
    scale = scale_named("laptop")
    task = scale.grammar.tasks[1]
    settings = replace(LAPTOP, short_schedules=())
    assert settings.in_short.schedules == (Schedule(0.2, 32), Schedule(0.1, 32), Schedule(0.4, 128))
    assert settings.in_short.control == settings.control
    whole = {run.digest for run in every_drift_run(scale, settings, task)}
    assert {run.digest for run in every_drift_run(scale, settings.in_short, task)} < whole


def test_beside_the_drift_an_experiment_judges_its_own_runs() -> None:
    scale = scale_named("laptop")
    alone = figure_1(scale)
    both = with_drift(alone, scale, LAPTOP)
    own = [frame(run.name, run.first_seed, None) for run in alone.runs]
    drifting = [frame(run.name, run.first_seed, "drift") for run in both.runs[len(alone.runs) :]]
    for claim, before in zip(both.claims, alone.claims, strict=False):
        assert claim.statistic([*own, *drifting]) == pytest.approx(before.statistic(own), nan_ok=True)
    assert len(both.runs) > len(alone.runs)
    assert {claim.name for claim in both.claims} > {"one-clock", "trace-falls"}


def frame(name: str, seed: int, part: str | None) -> pl.DataFrame:
    """A run whose numbers are determined by its name."""
    generator = np.random.default_rng(sum(map(ord, name)))
    columns = ("loss", "kl", "trace", "accuracy", "posterior_accuracy", "entropy")
    numbers = {column: generator.random(8) + 1 for column in columns}
    place = {"run": [name] * 8, "seed": [seed] * 8, "width": [32] * 8, "step": 2 ** np.arange(8)}
    return pl.DataFrame({**place, **numbers, "drift": pl.Series([part] * 8, dtype=pl.String)})


def test_nothing_is_trained_twice_for_figure_1() -> None:
    scale = scale_named("laptop")
    figure = {run.digest for run in figure_1(scale).runs}
    descents = [run for run in drift(scale, LAPTOP).runs if run.continues is not None]
    assert {run.continues.run.digest for run in descents} <= figure
    assert len(shared(descents)) == len(descents) + len({run.continues.run.digest for run in descents})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"schedules": (Schedule(0.1, 8),)}, "at least two learning rates or batches"),
        ({"schedules": (Schedule(0.1, 8), Schedule(0.1, 8))}, "each once"),
        ({"times": (0.2, 0.1)}, "must rise from above 0"),
        ({"control_checkpoints": 4}, "from 1 to 3 checkpoints"),
    ],
)
def test_what_cannot_be_compared_is_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        replace(SMOKE, **changed)


def test_a_pace_too_fast_for_the_times_and_a_width_that_is_not_there_are_refused() -> None:
    with pytest.raises(BadInput, match="past two of the times"):
        DriftRuns((16,), (Schedule(2.0, 1), Schedule(0.1, 8)), (0.01, 0.02), 1).steps(Schedule(2.0, 1))
    with pytest.raises(BadInput, match="starts from models of widths"):
        drift(scale_named("smoke"), replace(SMOKE, widths=(17,)))
