"""A misspelt column is an error before anything is measured, and no undeclared column is made."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

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
from isoloss.measurements.on_sentences.traces import RootFisherQuantity
from isoloss.measurements.quantity import names_with_errors
from isoloss.panels import Axis, Panel, Table
from isoloss.results.record import Record

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

    column_names = names_with_errors("root_of_fisher")


def test_a_quantity_makes_no_column_that_it_did_not_tell_of() -> None:
    record = Record("sum_root_fisher", 8.0, "", 0.5, 99)
    assert tuple(named_as_planned(RootFisherQuantity(8, 0), [record])) == ("root_fisher", "root_fisher_error")
    with pytest.raises(BadInput, match="Unsaid calls columns"):
        named_as_planned(Unsaid(8, 0), [record])
