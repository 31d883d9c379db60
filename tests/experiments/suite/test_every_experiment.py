"""What holds for every built-in experiment, on its plan and on a table of made-up numbers."""

import math
import re
from functools import cache
from pathlib import Path
from typing import get_args

import polars as pl
import pytest

from isoloss.executors.job import Schedule
from isoloss.experiments.claims import Question, judge
from isoloss.experiments.design import builtin_designs
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_jobs import experiment_jobs
from isoloss.experiments.experiment_result import judged_runs
from isoloss.experiments.misspelt_names import planned_table, refuse_misspelt_names
from isoloss.experiments.scale import scale_named
from isoloss.experiments.shared.language_runs import ScaleName
from isoloss.languages.pcfg import named_task
from isoloss.results.verdict import Verdict
from planned_suite import planned_suite
from thorough_cases import others_thorough

SCALES = get_args(ScaleName)
every = pytest.mark.parametrize("name", builtin_designs())
at_every_scale = pytest.mark.parametrize("scale", SCALES)
at_laptop_scale_first = pytest.mark.parametrize(
    "scale", ["laptop", *(pytest.param(s, marks=pytest.mark.slow) for s in SCALES if s != "laptop")]
)


def planned(name: str, scale: ScaleName) -> Experiment:
    return planned_suite(scale)[list(builtin_designs()).index(name)]


@cache
def made_up(name: str, scale: ScaleName) -> pl.DataFrame:
    return planned_table(planned(name, scale))


@every
@at_laptop_scale_first
def test_it_is_planned_under_its_files_name_from_columns_that_are_measured(
    name: str, scale: ScaleName, tmp_path: Path
) -> None:
    experiment = planned(name, scale)
    assert experiment.name == name
    refuse_misspelt_names(experiment)
    assert experiment.runs == () or {"run", "seed", "step"} <= set(made_up(name, scale).columns)
    jobs = experiment_jobs([experiment], experiment.runs, tmp_path, "cpu")
    names = {job.name for job in jobs}
    Schedule(jobs)
    assert len(names) == len(jobs) >= len({run.digest for run in experiment.runs})


@every
def test_its_claims_are_complete_and_registered(name: str) -> None:
    experiment = planned(name, "laptop")
    names = [claim.name for claim in experiment.claims]
    assert len(set(names)) == len(names)
    assert bool(names) == bool(experiment.registered)
    assert not names or experiment.question != Question.MATERIAL
    assert experiment.title.endswith("?")
    for claim in experiment.claims:
        assert claim.sentence.endswith("."), claim.name
        assert claim.measure, claim.name
        assert math.isnan(claim.statistic([])), f"{claim.name} is judged on nothing"
        assert claim.paper, claim.name
        assert claim.reason or claim.claimed.bounds == (0.0,), claim.name


@pytest.mark.parametrize(
    "scale",
    ["smoke", "laptop", "night", *(pytest.param(s, marks=pytest.mark.thorough) for s in ("gpu", "paper"))],
)
def test_seeds_are_neither_pilots_nor_those_of_an_earlier_round(scale: ScaleName) -> None:
    for experiment, design in zip(planned_suite(scale), builtin_designs().values(), strict=True):
        seeds = {run.first_seed for run in experiment.runs}
        assert not seeds & set(scale_named(scale).pilot_seeds), experiment.name
        assert len(seeds) != 1, experiment.name
        for earlier in design.earlier_seeds.get(scale, ()):
            assert seeds - set(earlier), (experiment.name, earlier)


@every
def test_made_up_numbers_are_drawn_and_nothing_measured_is_nothing_drawn(name: str) -> None:
    experiment, picture = planned(name, "laptop"), builtin_designs()[name].picture
    if experiment.runs or experiment.references:
        assert experiment.drawn(pl.DataFrame()) == ()
    panels = experiment.drawn(made_up(name, "laptop"))
    names = [panel.name for panel in panels]
    assert len(set(names)) == len(names) > 0
    assert picture is None or picture.panel in names
    shown = {claim for panel in panels for claim in panel.shows}
    assert shown <= {claim.name for claim in experiment.claims if not claim.withdrawn}
    for panel in panels:
        assert not panel.data.is_empty(), panel.name
        assert panel.charts, panel.name


@every
def test_a_single_run_is_judged_inconclusive(name: str) -> None:
    """As requested by `reproduce --runs`, which the pages print for each run; here, one of each kind."""
    experiment = planned(name, "laptop")
    kinds = {run.labels: run.name for run in experiment.runs}
    for run in judged_runs(made_up(name, "laptop")) if experiment.claims else ():
        if run["run"][0] not in kinds.values():
            continue
        for judged in judge(experiment.claims, [run]):
            assert judged.verdict == Verdict.INCONCLUSIVE, judged.claim.name


@at_every_scale
def test_the_language_of_a_scale_has_its_tasks(scale: ScaleName) -> None:
    grammar = scale_named(scale).grammar
    assert [named_task(grammar.language.ready, task).name for task in grammar.tasks] == list(grammar.tasks)


RANGES = re.compile(
    r"largest minus smallest|largest change|largest KL|log2 of the sharpest|KL\(distribution \|\| model\) at"
)


@pytest.mark.parametrize("scale", others_thorough(["laptop", "night"]))
def test_no_premise_about_a_range_can_have_an_interval_below_0(scale: str) -> None:
    claims = [claim for experiment in planned_suite(scale) for claim in experiment.claims]
    premises = [claim for claim in claims if claim.role == "premise" and RANGES.search(claim.measure)]
    assert len(premises) > 15
    assert {claim.name for claim in premises if claim.lowest != 0} == set()
