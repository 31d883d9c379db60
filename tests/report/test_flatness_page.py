"""The page of quantities of several models, of records written by hand."""

import math
import re
from dataclasses import replace

import polars as pl
import pytest

from isoloss.measurements.fixed_sentences import Reading
from isoloss.measurements.measured_models import MeasuredModels
from isoloss.measurements.quantity import Measurement
from isoloss.measurements.verdicts import PairVerdict
from isoloss.report.comparison_page import differences
from isoloss.report.flatness_page import flatness_page
from isoloss.results.estimate import Estimate
from isoloss.results.record import Record


def of_models(values: dict[str, float]) -> MeasuredModels:
    """A trace of three sentences for each model, with a standard error of 1/2."""
    found = {
        name: Measurement([Record("fisher_trace", value, "nats", 0.5, 3, checkpoint=name)])
        for name, value in values.items()
    }
    return MeasuredModels("trace", found, "", Reading())


def panels(values: dict[str, float]) -> dict[str, pl.DataFrame]:
    return {panel.name: panel.data for panel in flatness_page([of_models(values)], (), (), "").panels}


@pytest.mark.usefixtures("_nothing_painted")
def test_bars_reach_as_far_as_the_intervals_do() -> None:
    """Student's t with two degrees of freedom at 95 % is √(2 · 0.95² / (1 - 0.95²))."""
    t = math.sqrt(2 * 0.95**2 / (1 - 0.95**2))
    side_by_side = panels({"a": 2.0, "b": 3.0})["trace-of-models"]
    assert side_by_side["value"].to_list() == [2.0, 3.0]
    assert side_by_side["error"].to_list() == pytest.approx([t * 0.5] * 2)


@pytest.mark.usefixtures("_nothing_painted")
def test_only_checkpoints_of_different_steps_are_over_them() -> None:
    run = panels({"a/checkpoint-200": 2.0, "a/checkpoint-10/": 3.0})["trace-over-steps"]
    assert (run["step"].to_list(), run["value"].to_list()) == ([10, 200], [3.0, 2.0])
    for others in (
        ("a/checkpoint-10", "b/checkpoint-10"),
        ("a/checkpoint-10", "b/checkpoint-20"),
        ("a/checkpoint-10", "best"),
        ("a/checkpoint-10",),
        ("bert1", "bert2"),
    ):
        assert "trace-over-steps" not in panels(dict.fromkeys(others, 1.0))


@pytest.mark.usefixtures("_nothing_painted")
def test_charts_name_models_without_the_folders_that_all_share() -> None:
    names = ["hub/org/bert-a", "hub/org/bert-b/"]
    measured = of_models(dict.fromkeys(names, 2.0))
    less = Record("difference", 1.0, "nats", 0.5, 3, checkpoint=names[1], settings={"reference": names[0]})
    page = flatness_page([replace(measured, differences=[less])], (), (), "")
    side_by_side, differing = (panel.data for panel in page.panels)
    assert page.title == "Trace of bert-a · bert-b"
    assert side_by_side["model"].to_list() == ["bert-a", "bert-b"]
    assert differing["model"].to_list() == ["bert-b"]
    assert all(name in str(page.sections[0].markup) for name in names)  # in full


def test_a_difference_is_told_with_its_interval_and_its_number_of_sentences() -> None:
    asked = PairVerdict("flatter", "trace", "a", "b", "yes", Estimate(-2.0, 0.5, 9), -3.15, -0.85)
    not_asked = PairVerdict("better", "loss", "a", "c", "other words")
    cells = re.findall("<td[^>]*>(.*?)</td>", str(differences((asked, not_asked)).markup))
    assert cells == [
        *("b less a", "trace", "-2.00 ± 0.50", "-3.15 to -0.85", "9", "flatter: yes"),
        *("c less a", "loss", "–", "", "–", "better: other words"),
    ]
