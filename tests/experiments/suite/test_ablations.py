"""The released pipeline's choices: what is planned, and claims that can fail."""

from dataclasses import replace

import polars as pl
import pytest

from isoloss.experiments.design import builtin_designs
from isoloss.experiments.scale import scale_named
from isoloss.experiments.suite.ablations import CLAIMS, DECAY, MASKS, RELEASED, TEXT, ablations
from isoloss.experiments.suite.figure_1 import after_saturation
from isoloss.objectives.masked import ManyMasksObjective
from isoloss.pretraining.descent import scheduled_rate


def run(choice: str, seed: int, accuracy: float, released: float = 0.5) -> pl.DataFrame:
    return pl.DataFrame(
        {"choice": [choice], "seed": [seed], "step": [4], "accuracy": [accuracy], RELEASED: [released]}
    )


def test_a_choice_is_held_against_the_texts_run_of_its_own_seed() -> None:
    runs = [run(TEXT, 1, 0.5, 0.52), run(TEXT, 2, 0.7, 0.71), run(MASKS, 1, 0.53), run(DECAY, 2, 0.6)]
    effects = {claim.name: claim.statistic(runs) for claim in CLAIMS}
    assert effects == {
        "masks-change-little": pytest.approx(3.0),
        "decay-changes-little": pytest.approx(-10.0),
        "released-probe-changes-little": pytest.approx(1.5),
    }
    for claim in CLAIMS:
        assert not claim.claimed.low < claim.statistic(runs) < claim.claimed.high


def test_each_choice_changes_one_thing_and_the_texts_runs_are_figure_1s() -> None:
    scale = scale_named("laptop")
    runs = ablations(scale).runs
    assert len(runs) == 3 * len(scale.seeds)
    of_figure_1 = {each.digest for each in after_saturation(scale).runs}
    for each in runs:
        (choice,) = (value for _, value in each.labels)
        assert (each.digest in of_figure_1) == (choice == TEXT)
        assert isinstance(each.objective, ManyMasksObjective) == (choice == MASKS)
        back = replace(each, objective=runs[0].objective, update_rule=scale.grammar.update_rule)
        assert back.digest in of_figure_1
    assert {each.update_rule.decay for each in runs} == {"none", "linear"}


def test_the_papers_scales_have_the_pipelines_whole_schedule_beside_its_single_choices() -> None:
    for name, seeds in (("paper", 3), ("gpu", 10)):
        planned = builtin_designs()["ablations"].at(scale_named(name))
        own = [run for run in planned.runs if dict(run.labels)["choice"] == "its whole schedule"]
        assert len(own) == seeds
        assert {run.steps for run in own} == {25_000}
        (rule,) = {run.update_rule for run in own}
        steps = (1, 3_333, 25_000)
        rates = [scheduled_rate(rule.learning_rate, rule.warm_up_steps, 25_000, k, rule.decay) for k in steps]
        assert rates == pytest.approx([5e-4 / 3_333, 5e-4, 5e-4 / (25_001 - 3_333)])
        assert "schedule-changes-little" in {claim.name for claim in planned.claims}
    laptop = builtin_designs()["ablations"].at(scale_named("laptop"))
    assert "schedule-changes-little" not in {claim.name for claim in laptop.claims}
