"""What an experiment's claims and panels ask for in vain is refused before anything is measured, or told."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from isoloss.errors import BadInput
from isoloss.experiments.design import Changes, Design, builtin_designs, requested_experiments
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_result import carry_out_experiments
from isoloss.experiments.misspelt_names import planned_table, refuse_misspelt_names
from isoloss.experiments.planned_run import named_as_planned
from isoloss.experiments.scale import scale_named
from isoloss.experiments.statistics.seed_bootstrap import Statistic
from isoloss.measurements.on_sentences.gradients import RootFisherQuantity
from isoloss.panels import Axis, Colour, Dots, Panel, Table
from isoloss.report.experiment_page import ExperimentPage
from isoloss.results.record import Record
from jobs_in_turn import in_turn
from norm_experiments import experiment, planned
from runtime_types import unchecked

FIGURE_1 = builtin_designs()["figure-1"].at(scale_named("smoke"))


def misspelt_claim() -> Experiment:
    wrong = replace(FIGURE_1.claims[0], name="wrong", statistic=lambda runs: float(runs[0]["acuracy"].mean()))
    return replace(FIGURE_1, claims=(*FIGURE_1.claims, wrong))


def misspelt_panel() -> Experiment:
    return replace(
        FIGURE_1, panels=lambda table: (Panel("p", "", "", (Table((Axis("trase", "trace"),)),), table),)
    )


@pytest.mark.parametrize(
    ("experiment", "told"),
    [
        (misspelt_claim(), "the claim .* of figure-1 asks for a column 'acuracy' .* did you mean 'accuracy'"),
        (misspelt_panel(), "the panel p of figure-1 asks for a column 'trase' .* did you mean 'trace'"),
    ],
)
def test_a_misspelt_one_is_refused_before_the_first_run(
    experiment: Experiment, told: str, tmp_path: Path
) -> None:
    design, scale = Design(lambda _: experiment), scale_named("smoke")
    with pytest.raises(BadInput, match=told):
        requested_experiments({"figure-1": design}, scale, Changes(), tmp_path)
    with pytest.raises(BadInput, match=told):
        carry_out_experiments([experiment], tmp_path, lambda *_: pytest.fail("a run was begun"))
    assert list(tmp_path.iterdir()) == []


def by_name(runs: Sequence[pl.DataFrame]) -> float:
    return float({run["run"][0]: run for run in runs}[FIGURE_1.runs[-1].name]["accuracy"][-1])


def of_no_row(runs: Sequence[pl.DataFrame]) -> float:
    return max(value for run in runs for value in run["accuracy"].drop_nulls() if value > 1)


def of_a_fourth(runs: Sequence[pl.DataFrame]) -> float:
    return float(sorted(run["accuracy"].mean() for run in runs if not run["accuracy"].is_null().all())[99])


def of_words(runs: Sequence[pl.DataFrame]) -> float:
    return float(runs[0]["accuracy"].str.to_decimal(scale=2)[0])


@pytest.mark.parametrize("statistic", [by_name, of_no_row, of_a_fourth, of_words])
def test_what_invented_numbers_lack_is_no_misspelling(statistic: Statistic) -> None:
    def panels(table: pl.DataFrame) -> tuple[Panel, ...]:
        raise ValueError(statistic([table]))

    with pytest.raises((KeyError, ValueError, IndexError, pl.exceptions.PolarsError)):
        statistic([planned_table(FIGURE_1)])
    refuse_misspelt_names(
        replace(FIGURE_1, claims=(replace(FIGURE_1.claims[0], statistic=statistic),), panels=panels)
    )


def without_data(table: pl.DataFrame) -> tuple[Panel, ...]:
    return (Panel("p", "", "", (), shows=tuple(table.columns[:1])),)  # type: ignore[call-arg]


def test_a_panel_without_its_data_is_refused_whatever_the_numbers() -> None:
    told = r"a panel of figure-1 fails in .*: TypeError: Panel.* missing 1 .* argument: 'data'; mend it"
    with pytest.raises(BadInput, match=told):
        refuse_misspelt_names(replace(FIGURE_1, panels=without_data))


class Unsaid(RootFisherQuantity):
    """Declares another column than it makes."""

    column_names = ("root_of_fisher", "root_of_fisher_error")


def test_a_quantity_makes_no_column_that_it_did_not_tell_of() -> None:
    record = Record("sum_root_fisher", 8.0, "", 0.5, 99)
    assert tuple(named_as_planned(RootFisherQuantity(8, 0), [record])) == ("root_fisher", "root_fisher_error")
    with pytest.raises(BadInput, match="Unsaid calls columns"):
        named_as_planned(Unsaid(8, 0), [record])


def no_picture(table: pl.DataFrame) -> tuple[Panel, ...]:
    if "seed-9" in table["run"]:
        return ()
    raise LookupError("no seed 9")


def text_on_an_axis(table: pl.DataFrame) -> tuple[Panel, ...]:
    chart = Dots(Axis("step", "step"), Axis("run", "run"), Colour("width", "width"))
    return (Panel("p", "", "", (chart,), table),)


def test_panels_that_fail_are_named_and_cost_nothing_else(tmp_path: Path) -> None:
    one = experiment(planned(1, tmp_path / "log", 1.0))
    wrong = replace(one, name="wrong", panels=no_picture)
    results = carry_out_experiments([wrong, one], tmp_path / "out", in_turn)
    (failure,) = results.outcome.failures
    assert failure.job == "wrong"
    says = rf"{re.escape(__file__)}, line \d+, in no_picture: LookupError: no seed 9"
    assert re.fullmatch(rf"its panels are not drawn: {says}.*; mend .* and run again", failure.text)
    assert [len(each.judgements) for each in results.experiments] == [1, 1]
    failed, whole = (
        ExperimentPage("laptop", tmp_path, lambda *_: "", {}).of(each) for each in results.experiments
    )
    assert failed.panels == ()
    assert f"wrong failed: {failure.text}" in failed.notices
    assert whole.judgements


@pytest.mark.parametrize(
    ("charts", "data", "says"),
    [
        (Table(()), pl.DataFrame(), r"has charts=Table, which are a tuple; of one: charts=\(\.\.\.,\)"),
        (("trace",), pl.DataFrame(), r"has a str among its charts; give"),
        ((), [1, 2], r"has data of another kind, list; give it the table, or some of its rows"),
    ],
)
def test_what_is_no_chart_is_refused_before_anything_is_run(charts: Any, data: Any, says: str) -> None:
    one = experiment(planned(1, Path("log"), 1.0))
    with unchecked():
        panel = Panel("p", "", "", charts, data)
        with pytest.raises(BadInput, match=f"the panel p of norms {says}"):
            refuse_misspelt_names(replace(one, panels=lambda _: (panel,)))


def test_text_on_an_axis_is_refused_before_anything_is_run() -> None:
    one = replace(experiment(planned(1, Path("log"), 1.0)), panels=text_on_an_axis)
    with pytest.raises(BadInput, match="the panel p of norms has the column 'run' on an axis, whose cells"):
        refuse_misspelt_names(one)
