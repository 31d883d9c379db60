"""Each family of compared runs, carried out in one process on a scale of seconds."""

from dataclasses import replace

import polars as pl
import pytest

from isoloss.experiments.design import builtin_designs
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_result import Results, carry_out_experiments
from isoloss.experiments.suite.flatness_measures import FlatnessSettings, flatness_measures
from isoloss.experiments.suite.longer_training import AT, longer_training
from isoloss.experiments.suite.table_1 import TASK_A
from isoloss.measurements.references import LOOKUP_TABLE
from isoloss.panels import Axis, Categories, Chart, Dots, Lines, Table
from jobs_in_turn import in_turn
from tiny_scale import tiny_scale

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def carried_out(tmp_path_factory: pytest.TempPathFactory) -> Results:
    scale, output = tiny_scale(), tmp_path_factory.mktemp("results")
    planned = [
        builtin_designs()[name].at(scale)
        for name in ("table-1", "table-2", "update-rules", "causal-objective", "figure-5")
    ]
    planned.append(longer_training(scale, replace(AT["smoke"], noise_sentences=4)))
    planned.append(flatness_measures(scale, FlatnessSettings(4, 4, 4, 4)))
    return carry_out_experiments(planned, output, in_turn)


def axes(chart: Chart) -> tuple[Axis, ...]:
    """The columns that it draws, for the kinds of charts in these experiments."""
    if isinstance(chart, Table):
        return chart.columns
    if isinstance(chart, Dots | Lines):
        return (chart.x, chart.y)
    assert isinstance(chart, Categories)
    return (chart.y,)


def tables(carried_out: Results) -> dict[str, pl.DataFrame]:
    return {result.experiment.name: result.table for result in carried_out.experiments}


def test_everything_planned_is_measured(carried_out: Results) -> None:
    assert not carried_out.outcome.failures
    for result in carried_out.experiments:
        experiment: Experiment = result.experiment
        assert result.table["complete"].all()
        assert set(result.table.filter(pl.col("step").is_not_null())["run"]) == {
            r.name for r in experiment.runs
        }
        assert len(result.judgements) == len(experiment.claims)
        assert all(judgement.runs == len(experiment.runs) for judgement in result.judgements)
        for panel in experiment.panels(result.table):
            assert not panel.data.is_empty()
            for axis in [axis for chart in panel.charts for axis in axes(chart)]:
                assert {axis.column, axis.error or axis.column} <= set(panel.data.columns)


def test_runs_that_experiments_share_have_the_same_numbers(carried_out: Results) -> None:
    by_name = tables(carried_out)
    one, two = (by_name[name].filter(run="AdamW-seed-1") for name in ("table-1", "table-2"))
    assert one["checkpoint"].to_list() == two["checkpoint"].to_list()
    same = by_name["flatness-measures"].filter(run="width-16-seed-1")
    assert set(same["trace"]) <= set(two["trace"])


def test_the_lookup_table_has_the_least_loss(carried_out: Results) -> None:
    table = tables(carried_out)["table-1"]
    lookup = table.filter(run=LOOKUP_TABLE)
    assert lookup["kl"].item() == pytest.approx(0.0, abs=1e-9)
    assert lookup["loss"].item() < table.filter(pl.col("step").is_not_null())["loss"].min()
    assert 0 < lookup[TASK_A].item() <= 1
    assert lookup["saturated"].item()


def test_the_adversary_was_at_work(carried_out: Results) -> None:
    rows = tables(carried_out)["table-2"].filter(step=20)
    adversarial, adamw = (rows.filter(rule=rule)["checkpoint"].item() for rule in ("adversarial", "AdamW"))
    assert adversarial != adamw


def test_a_causal_run_has_the_loss_of_its_own_objective(carried_out: Results) -> None:
    last = tables(carried_out)["causal-objective"].filter(step=20)
    losses = dict(last.select("objective", "loss").iter_rows())
    # Of words and the end of the sentence, which is certain and predicted ever better: less a prediction.
    assert 0 < losses["next word"] < losses["masked word"]


def test_enlarged_and_fine_tuned_checkpoints_have_their_columns(carried_out: Results) -> None:
    sizes = tables(carried_out)["figure-5"]
    widest = sizes.filter(width=32)
    # The widest is of the common shape already: no copies, and nothing for the forms to differ in.
    assert widest["trace_exact"].to_list() == pytest.approx(widest["trace_paper"].to_list(), rel=1e-4)
    longer = tables(carried_out)["longer-training"]
    assert longer["step"].to_list() == [20, 40, 60]
    assert longer["fine_tuned"].is_between(0, 1).all()
    assert (longer["noise_3"] > longer["noise_0.3"]).all()
