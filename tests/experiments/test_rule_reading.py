"""What a rule reports is a column of the runs that it trained, by the engine from plan to table."""

from dataclasses import replace
from pathlib import Path

import pytest

from isoloss.experiments.experiment_result import carry_out_experiments
from isoloss.experiments.planned_run import PlannedRun, measured_at
from isoloss.measurements.rule_reading import RuleReadingQuantity
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.flatness_regularised import Sharpened
from jobs_in_turn import in_turn
from norm_experiments import RUN, experiment


def read(run: PlannedRun, reading: str, folder: Path) -> tuple[list[float], list[str]]:
    """The column, and why there is none."""
    measured = measured_at(run.checkpoint_steps, RuleReadingQuantity(reading))
    planned = replace(experiment(replace(run, seed=1, measured=measured)), references=(), claims=())
    (result,) = carry_out_experiments([planned], folder, in_turn).experiments
    found = result.table[reading].to_list() if reading in result.table.columns else []
    return found, [str(each) for each in result.outcome.failures]


@pytest.mark.parametrize(
    ("window", "strength"), [((1e-6, 2e-6), 0.0), pytest.param((98.0, 99.0), 0.5, marks=pytest.mark.thorough)]
)
def test_the_strength_of_a_competing_term(
    window: tuple[float, float], strength: float, tmp_path: Path
) -> None:
    rule = Sharpened(loss_window=window, strength=0.5, optimiser=AdamW(warm_up_steps=1))
    found, failures = read(replace(RUN, update_rule=rule), "lambda", tmp_path)
    assert not failures
    assert found == [strength] * len(RUN.checkpoint_steps)


def test_a_reading_that_there_is_not_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    _, (failure,) = read(RUN, "lambda", tmp_path)
    assert "reports no 'lambda'; measure it on runs whose rule does, or ask for" in failure
