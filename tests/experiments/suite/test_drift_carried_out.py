"""The drift, carried out in seconds."""

from dataclasses import replace
from pathlib import Path

import pytest

from isoloss.experiments.drift_runs import DRIFT_RUNS
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_result import carry_out_experiments
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.scale import scale_named
from isoloss.experiments.suite.adamw_clock import AT as CLOCK
from isoloss.experiments.suite.adamw_clock import adamw_clock
from isoloss.experiments.suite.drift import drift
from isoloss.experiments.suite.drift_limits import drift_limits
from isoloss.experiments.suite.flatness_interventions import AT as INTERVENTIONS
from isoloss.experiments.suite.flatness_interventions import flatness_interventions
from jobs_in_turn import in_turn
from tiny_scale import tiny_scale

SMOKE = DRIFT_RUNS["smoke"]


def test_the_experiment_is_carried_out_and_drawn(tmp_path: Path) -> None:
    scale = tiny_scale(scale_named("smoke").seeds)
    experiment = drift(scale, SMOKE)
    result = carry_out_experiments([experiment], tmp_path, in_turn).experiments[0]
    assert result.outcome.failures == ()
    schedules = len(SMOKE.schedules) + 1
    table = result.table
    assert table.height == len(scale.seeds) * (1 + 3 * (schedules - 1) + 2)
    assert table["predicted_descent"].drop_nulls().len() == len(scale.seeds)
    assert table["complete"].all()
    assert table.filter(drift="drift")["raw_loss"].null_count() == 0
    judged = {judgement.claim.name: judgement.effect for judgement in result.judgements}
    assert all(
        effect == effect for name, effect in judged.items() if name not in ("quarter-speed", "speed")
    ), judged
    kinds = ("clock", "distance", "examples")
    assert [panel.name for panel in experiment.panels(table)] == [f"{kind}-grammar-16" for kind in kinds]


def few(experiment: Experiment, varied: str) -> tuple[PlannedRun, ...]:
    """The runs of the first seed that are plain or vary only this setting."""
    seed = experiment.runs[0].first_seed
    of_seed = (run for run in experiment.runs if run.first_seed == seed)
    return tuple(run for run in of_seed if dict(run.labels).get("varied", varied) == varied)


@pytest.mark.slow
def test_where_the_clock_ends_is_looked_for_and_drawn(tmp_path: Path) -> None:
    experiment = drift_limits(scale_named("smoke"), SMOKE)
    experiment = replace(experiment, runs=few(experiment, "momentum"))
    result = carry_out_experiments([experiment], tmp_path, in_turn).experiments[0]
    assert result.outcome.failures == ()
    assert result.table["complete"].all()
    panels = experiment.panels(result.table)
    assert [panel.name for panel in panels] == ["limit-momentum"]
    assert panels[0].caption.startswith("To within 0.25 of the fall")


@pytest.mark.slow
def test_the_clock_of_adamw_is_carried_out_and_drawn(tmp_path: Path) -> None:
    experiment = adamw_clock(scale_named("smoke"), CLOCK["smoke"])
    experiment = replace(experiment, runs=few(experiment, "epsilon"))
    result = carry_out_experiments([experiment], tmp_path, in_turn).experiments[0]
    assert result.outcome.failures == ()
    assert result.table["complete"].all()
    assert result.table["root_fisher"].null_count() == 0
    judged = {judgement.claim.name: judgement.effect for judgement in result.judgements}
    assert all(judged[name] == judged[name] for name in ("loss-stands", "root-falls", "root-before-trace"))
    shown = [panel.name for panel in experiment.panels(result.table)]
    assert shown == ["clock", "by-the-clock-of-sgd", "what-descends", "limit-epsilon"]


@pytest.mark.slow
def test_the_interventions_are_carried_out_and_drawn(tmp_path: Path) -> None:
    experiment = flatness_interventions(scale_named("smoke"), INTERVENTIONS["smoke"])
    experiment = replace(experiment, runs=few(experiment, ""))
    result = carry_out_experiments([experiment], tmp_path, in_turn).experiments[0]
    assert result.outcome.failures == ()
    assert result.table.height == 5
    judged = {judgement.claim.name: judgement.effect for judgement in result.judgements}
    assert all(effect == effect for effect in judged.values()), judged
    (panel,) = experiment.panels(result.table)
    assert len(panel.charts) == 5
