"""The runs of the drift as they are planned."""

from dataclasses import replace

import pytest

from isoloss.errors import BadInput
from isoloss.experiments.drift.clock import Pace
from isoloss.experiments.drift.experiment import drift
from isoloss.experiments.drift.runs import DriftRuns
from isoloss.experiments.drift.scales import LAPTOP, SMOKE
from isoloss.experiments.experiment_jobs import shared
from isoloss.experiments.figure_1 import figure_1
from isoloss.experiments.scales import laptop, smoke


def test_every_pace_has_its_checkpoints_at_the_same_times() -> None:
    scale = laptop()
    runs = drift(scale, scale.grammar.tasks[1]).runs
    for run in runs:
        labels = dict(run.labels)
        if labels["drift"] != "drift":
            continue
        pace = Pace(run.update_rule.learning_rate, run.batch_size)
        assert str(pace) == labels["pace"]
        for step, time in zip(run.checkpoint_steps, LAPTOP.times, strict=True):
            assert pace.time(step) == pytest.approx(time, abs=pace.time_per_step)
        assert (run.update_rule.momentum, run.update_rule.warm_up_share, run.architecture.dropout) == (
            0,
            0,
            0,
        )
        assert run.averaging_horizon == pace.horizon
    paces = len(LAPTOP.paces) + 1
    assert len(runs) == (paces + 1) * len(LAPTOP.widths) * len(scale.seeds)


def test_the_control_has_the_steps_of_its_twin() -> None:
    assert LAPTOP.control == Pace(0.2, 1024)
    assert LAPTOP.control_steps == LAPTOP.steps(Pace(0.2, 32))[:3]


def test_nothing_is_trained_twice_for_figure_1() -> None:
    scale = laptop()
    figure = {run.digest for run in figure_1(scale, scale.grammar.tasks[1]).runs}
    descents = [run for run in drift(scale, scale.grammar.tasks[1]).runs if run.continues is not None]
    assert {run.continues.run.digest for run in descents} <= figure
    assert len(shared(descents)) == len(descents) + len({run.continues.run.digest for run in descents})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"paces": (Pace(0.1, 8),)}, "at least two learning rates or batches"),
        ({"paces": (Pace(0.1, 8), Pace(0.1, 8))}, "each once"),
        ({"times": (0.2, 0.1)}, "must rise from above 0"),
        ({"control_checkpoints": 3}, "from 1 to 2 checkpoints"),
    ],
)
def test_what_cannot_be_compared_is_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        replace(SMOKE, **changed)


def test_a_pace_too_fast_for_the_times_and_a_width_that_is_not_there_are_refused() -> None:
    with pytest.raises(BadInput, match="past two of the times"):
        DriftRuns((16,), (Pace(2.0, 1), Pace(0.1, 8)), (0.01, 0.02), 1).steps(Pace(2.0, 1))
    with pytest.raises(BadInput, match="starts from models of widths"):
        drift(replace(smoke(), drift=replace(SMOKE, widths=(17,))), "prefix-4")
