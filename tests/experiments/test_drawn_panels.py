"""Functions for panels that fail: what that costs, and what is refused before anything is run."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from isoloss.errors import BadInput
from isoloss.experiments.experiment_result import carry_out_experiments
from isoloss.experiments.misspelt_names import refuse_misspelt_names
from isoloss.panels import Axis, Colour, Dots, Panel, Table
from isoloss.report.experiment_page import ExperimentPage
from jobs_in_turn import in_turn
from norm_experiments import experiment, planned
from runtime_types import unchecked


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
        (
            Table(()),
            pl.DataFrame(),
            r"has charts=Table, which are a tuple; of one: charts=\(\.\.\.,\)",
        ),
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
