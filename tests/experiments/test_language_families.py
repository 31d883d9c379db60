"""Hidden Markov and causal languages, and SGD from saturated models, carried out at the smallest scale."""

import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from isoloss.errors import IsolossError
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_jobs import experiment_jobs
from isoloss.experiments.experiment_result import ExperimentResult, carry_out_experiments, judged_runs
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.shared.causal_language import CAUSAL_LANGUAGE, TINY_TEACHER
from isoloss.experiments.suite.figure_2 import figure_2
from isoloss.experiments.suite.figure_4 import DESCENTS, figure_4
from isoloss.experiments.suite.figure_8 import figure_8
from isoloss.experiments.suite.figure_9 import figure_9
from isoloss.experiments.teacher import GivenProse, HubPlan, TeacherPlan
from isoloss.models.causal_language import ModelSource
from isoloss.progress import Progress, silent
from jobs_in_turn import in_turn
from tiny_causal_models import tiny_checkpoint
from tiny_scale import tiny_scale

SMOKE = CAUSAL_LANGUAGE["smoke"]


def without_grammar(experiment: Experiment) -> list[PlannedRun]:
    return [run for run in experiment.runs if not run.name.startswith("pcfg")]


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("families")


@pytest.fixture(scope="module")
def results(output: Path) -> dict[str, ExperimentResult]:
    scale = tiny_scale()
    descending = figure_4(scale, DESCENTS[scale.name])
    experiments = [figure_2(scale), descending, figure_8(scale), figure_9(scale)]
    runs = [run for experiment in experiments for run in without_grammar(experiment)]
    found = carry_out_experiments(experiments, output, in_turn, runs=runs)
    assert found.outcome.failures == ()
    return {result.experiment.name: result for result in found.experiments}


@pytest.mark.slow
def test_families_are_carried_out_and_drawn(results: dict[str, ExperimentResult]) -> None:
    drawn = {
        name: {panel.name: panel.data for panel in result.experiment.panels(result.table)}
        for name, result in results.items()
    }
    assert {name: set(panels) for name, panels in drawn.items()} == {
        "figure-2": {"causal-lm-opening-4"},
        "figure-4": {"hmm-10"},
        "figure-8": {"hmm-6", "causal-lm-opening-2"},
        "figure-9": {
            f"{key}-{what}" for key in ("hmm-10", "causal-lm-opening-4") for what in ("steps", "sizes")
        },
    }
    for panels in drawn.values():
        for name, rows in panels.items():
            assert not rows.is_empty()
            measured = ["loss", "kl"] if name.endswith("steps") else ["loss", "kl", "accuracy"]
            assert rows.select(measured).null_count().row(0) == (0,) * len(measured)
            assert rows["kl"].min() > 0
    assert drawn["figure-4"]["hmm-10"]["step"].to_list() == [1, 10, 20]
    assert drawn["figure-8"]["hmm-6"].select("width", "step").rows() == [(8, 40), (16, 40)]


@pytest.mark.slow
def test_claims_are_judged_on_saturated_checkpoints(results: dict[str, ExperimentResult]) -> None:
    frames = judged_runs(results["figure-2"].table)
    assert [frame["step"].to_list() for frame in frames] == [[20, 40]] * 2
    # Every one is asked whether the divergence levels off.
    frames = judged_runs(results["figure-9"].table)
    assert [frame["step"].to_list() for frame in frames] == [[10, 20, 40]] * 4
    effects = {judged.claim.name: judged.effect for judged in results["figure-9"].judgements}
    rows = results["figure-9"].table.filter(pl.col("panel") == "hmm-10", pl.col("step") == 40)
    smaller, larger = rows["kl"].to_list()
    assert effects["hmm-10-saturates-over-width"] == pytest.approx((smaller - larger) / rows["loss"][-1])


@pytest.mark.slow
def test_sgd_begins_where_adamw_ended(results: dict[str, ExperimentResult]) -> None:
    """A first step at a tenth of a small rate leaves the loss unchanged, and the seed is the origin's."""
    descent = results["figure-4"].table.filter(pl.col("panel") == "hmm-10", pl.col("step").is_not_null())
    adamw = results["figure-9"].table.filter(pl.col("run") == "hmm-10-width-8-seed-1", pl.col("step") == 40)
    assert descent["seed"].to_list() == [1, 1, 1]
    assert descent["loss"][0] == pytest.approx(adamw["loss"][0], abs=1e-2)
    assert descent["loss"][0] != adamw["loss"][0]
    assert descent.filter("saturated")["step"].to_list() == [10, 20]


@pytest.mark.slow
def test_a_continuing_run_goes_on_where_it_was_cut(
    output: Path, results: dict[str, ExperimentResult]
) -> None:
    experiment = results["figure-4"].experiment
    (run,) = without_grammar(experiment)
    assert experiment_jobs([experiment], [run], output, "cpu") == []
    folder = run.folder(output)
    for part in ("steps", "measured"):
        shutil.rmtree(folder / part / "000020")
    (again,) = carry_out_experiments([experiment], output, in_turn, runs=[run]).experiments
    assert again.outcome.failures == ()
    assert again.table.equals(results["figure-4"].table)


@pytest.mark.slow
def test_a_teacher_is_trained_once(output: Path, results: dict[str, ExperimentResult]) -> None:
    """Once its run is complete, its text is not requested again."""
    (folder,) = (output / "teachers").iterdir()
    prose = SMOKE.language.prose
    assert isinstance(prose, GivenProse)
    plan = replace(SMOKE.language, prose=NoProse(prose.text))
    assert plan.digest == SMOKE.language.digest
    language = plan.language(output, silent)
    assert language.digest == SMOKE.language.language(output, silent).digest
    assert language.length == SMOKE.language.maximum_length
    assert len(list((folder / "steps").iterdir())) == 1


class NoProse(GivenProse):
    def books(self, _progress: Progress) -> tuple[str, ...]:
        raise IsolossError("the books cannot be fetched (no such host); connect to a package index")


def test_without_its_text_only_the_causal_language_fails(tmp_path: Path) -> None:
    plan = TeacherPlan(TINY_TEACHER, NoProse(""), words=16)
    scale = replace(tiny_scale(), causal_language=replace(SMOKE, language=plan))
    experiment = figure_8(scale)
    runs = [run for run in without_grammar(experiment) if "width-16" in run.name]
    (result,) = carry_out_experiments([experiment], tmp_path, in_turn, runs=runs).experiments
    failures = {failure.job: failure.text for failure in result.outcome.failures}
    assert failures.pop(f"language {plan.digest[:8]}").startswith(
        "the books cannot be fetched (no such host)"
    )
    assert failures
    assert all(text.startswith("it needs language") for text in failures.values())
    assert [panel.name for panel in experiment.panels(result.table)] == ["hmm-6"]


def test_a_pre_trained_models_tokens_are_chosen_once(tmp_path: Path) -> None:
    plan = HubPlan(ModelSource(str(tiny_checkpoint("opt", tmp_path / "model"))), words=6, length=4)
    language = plan.language(tmp_path / "out", silent)
    assert (len(language.vocabulary), language.maximum_length) == (plan.words, plan.maximum_length) == (6, 4)
    (kept,) = (tmp_path / "out" / "languages").iterdir()
    assert kept.stem == plan.digest[:16]
    assert plan.language(tmp_path / "out", silent).digest == language.digest
