import math
import re
from dataclasses import replace
from typing import Any

import altair as alt
import polars as pl
import pytest
import vl_convert
from markupsafe import Markup

from isoloss.panels import Axis, Bars, Categories, Chart, Colour, Dots, Landscape, Lines, Mark, Table
from isoloss.report.charts import draw
from isoloss.report.marks import MOST_IN_LEGEND, NOTHING, PALETTE, SHAPES, key_of, on_dark_ground, plotted
from isoloss.report.over_runs import BAND, POINTS, SLOPE, explained

ACCURACY = Axis("accuracy", "probe accuracy", "accuracy_error")
TRACE = Axis("trace", "trace", "trace_error", logarithmic=True)
STEP = Axis("step", "step", logarithmic=True)
TRACE_OF_T = Axis("t", "t", "e", logarithmic=True)
WIDTH = Colour("width", "width", ordered=True)
RULE = Colour("rule", "rule")


def rows(**changed: Any) -> pl.DataFrame:
    table = [
        {
            "run": f"{rule}-{width}-{seed}", "rule": rule, "width": width, "seed": seed, "step": step,
            "accuracy": 0.5 + step / 1e4, "accuracy_error": 0.01,
            "trace": 100.0 - step / 50, "trace_error": 1.0,
        } | changed
        for rule in ("SGD", "AdamW") for width in (32, 16) for seed in (1, 2) for step in (500, 1000)
    ]  # fmt: skip
    return pl.DataFrame(table)


def painted(chart: Chart, data: pl.DataFrame) -> tuple[dict[str, Any], str]:
    """The specification for Vega-Lite, which must accept it, and the picture."""
    found = specification(chart, data)
    svg = vl_convert.vegalite_to_svg(found)
    assert "<svg" in svg
    return found, svg


def specification(chart: Chart, data: pl.DataFrame) -> dict[str, Any]:
    """That of Vega-Lite's schema; of every kind of chart one is painted, too."""
    found = draw(chart, data, "panel_0")
    assert isinstance(found, dict)
    alt.LayerChart.validate(found)
    return found


def marks(specification: dict[str, Any]) -> list[str]:
    return [layer["mark"]["type"] for layer in specification["layer"]]


def drawn_rows(specification: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for data in specification["datasets"].values() for row in data]


def test_bars_begin_at_zero_and_end_in_an_error() -> None:
    data = pl.DataFrame({"layer": ["1", "1", "2"], "kind": ["MLP", "norms", "MLP"], "v": [2.0, -1.0, 3.0]})
    data = data.with_columns(e=pl.lit(0.25))
    found = specification(Bars("layer", Axis("v", "trace", "e"), Colour("kind", "kind")), data)
    assert marks(found) == ["bar", "rule"]
    assert found["layer"][0]["encoding"]["x"]["scale"]["zero"]
    assert [(row["x_low"], row["x_high"]) for row in drawn_rows(found)] == [
        (1.75, 2.25),
        (-1.25, -0.75),
        (2.75, 3.25),
    ]


def test_dots_have_a_bar_on_each_axis_that_names_an_error_and_all_their_numbers_on_hover() -> None:
    found = specification(Dots(TRACE, ACCURACY, WIDTH), rows())
    assert marks(found) == ["line", "rule", "rule", "line", "text", "point"]
    dots = [row for row in drawn_rows(found) if "x_text" in row]
    assert len(dots) == len(rows())
    dot = dots[0]
    assert (dot["x"], dot["x_low"], dot["x_high"], dot["x_text"]) == (90.0, 89.0, 91.0, "90.0 ± 1.0")
    titles = [field["title"] for field in found["layer"][-1]["encoding"]["tooltip"]]
    assert titles == ["run", "seed", "step", "width", "trace", "probe accuracy"]
    without = specification(Dots(Axis("trace", "trace"), Axis("accuracy", "accuracy"), WIDTH), rows())
    assert marks(without) == ["line", "line", "text", "point"]


def test_the_slope_shown_is_the_one_within_the_groups_with_its_error_over_seeds() -> None:
    """Each seed has its own slope, each run its own level, which no slope sees."""
    data = pl.DataFrame(
        [
            {"run": f"{seed}-{level}", "seed": seed, "step": x, "width": 16, "x": x, "y": slope * x + level}
            for seed, slope in ((1, 1.0), (2, 3.0))
            for level in (0.0, 50.0)
            for x in (1.0, 2.0, 4.0)
        ]
    )
    found, _ = painted(Dots(Axis("x", "x"), Axis("y", "y"), WIDTH), data)
    (said,) = [row["label"] for row in drawn_rows(found) if "label" in row]
    assert said == "slope within a run:\n2.0 ± 1.0 per unit"
    one = specification(Dots(Axis("x", "x"), Axis("y", "y"), WIDTH), data.filter(pl.col("seed") == 1))
    assert "text" not in marks(one)  # of one seed there is no error
    assert explained(draw(Dots(Axis("x", "x"), Axis("y", "y"), WIDTH), data, "a")) == [SLOPE]
    apart = data.with_columns(run=pl.col("run") + pl.col("x").cast(pl.String), pair=pl.col("run"))
    dots = Dots(Axis("x", "x"), Axis("y", "y"), WIDTH, joined="pair")
    (said,) = [row["label"] for row in drawn_rows(specification(dots, apart)) if "label" in row]
    assert said == "slope within a pair:\n2.0 ± 1.0 per unit"
    widths = pl.concat([apart, apart.with_columns(pl.col("width") * 2, pl.col("pair") + "b", y=-pl.col("y"))])
    (said,) = [row["label"] for row in drawn_rows(specification(dots, widths)) if "label" in row]
    assert said.splitlines()[1:] == ["16: 2.0 ± 1.0 per unit", "32: -2.0 ± 1.0 per unit"]
    assert "\n16: " not in str(drawn_rows(specification(replace(dots, joined="run"), widths)))
    of_accuracy = Dots(Axis("x", "x"), Axis("y", "linear probe accuracy"), WIDTH)
    (said,) = [row["label"] for row in drawn_rows(specification(of_accuracy, data)) if "label" in row]
    assert said == "slope within a run:\n200 ± 100 points per unit"
    assert explained(draw(of_accuracy, data, "a")) == [SLOPE, POINTS]


@pytest.mark.thorough
def test_several_runs_of_a_colour_are_faint_behind_their_mean_and_band() -> None:
    data = pl.DataFrame(
        [
            {"run": f"{width}-{seed}", "seed": seed, "width": width, "step": step, "t": float(seed * step)}
            for width, seeds in ((16, (1, 3)), (32, (1,)))
            for seed in seeds
            for step in (1, 2)
        ]
    )
    chart = Lines(
        Axis("step", "step"), Axis("t", "t"), WIDTH, "run", marked=Mark(1.5, "converged"), level=0.5
    )
    found, _ = painted(chart, data)
    assert marks(found) == ["area", "rule", "text", "rule", "text", "line", "point", "line"]
    means = [row for row in drawn_rows(found) if "mean" in row]
    assert [(row["colour"], row["x"], row["mean"]) for row in means] == [(16, 1.0, 2.0), (16, 2.0, 4.0)]
    assert means[1]["high"] - means[1]["low"] == pytest.approx(2 * math.sqrt(8))
    assert [row["label"] for row in drawn_rows(found) if "label" in row] == ["converged", "entropy"]
    assert explained(draw(chart, data, "a")) == [BAND]
    logarithmic = replace(chart, y=Axis("t", "t", logarithmic=True))
    means = [row for row in drawn_rows(specification(logarithmic, data)) if "mean" in row]
    assert [row["mean"] for row in means] == pytest.approx([math.sqrt(3), math.sqrt(12)])
    alone = specification(chart, data.filter(pl.col("seed") == 1))
    assert marks(alone) == ["rule", "text", "rule", "text", "line", "point"]


@pytest.mark.thorough
def test_every_colour_of_a_chart_has_another_on_dark_ground() -> None:
    rules = on_dark_ground().lower()
    for by in (WIDTH, RULE):
        _, svg = painted(Dots(TRACE, ACCURACY, by), rows())
        used = set(re.findall(r'(?:fill|stroke)="(#[0-9A-Fa-f]{6})"', svg))
        assert used >= {"#000000", "#e6e6e6", "#888888"}
        assert [each for each in used if f'"{each.lower()}"' not in rules] == []


def test_sizes_are_coloured_in_their_order_and_names_in_that_of_appearance() -> None:
    by_width = specification(Dots(TRACE, ACCURACY, WIDTH), rows())["layer"][-1]["encoding"]
    assert by_width["color"]["scale"]["domain"] == by_width["shape"]["scale"]["domain"] == [16, 32]
    by_rule = specification(Dots(TRACE, ACCURACY, RULE), rows())["layer"][-1]["encoding"]
    assert by_rule["color"]["scale"] == {"domain": ["SGD", "AdamW"], "range": list(PALETTE[:2])}
    sizes = pl.DataFrame({"size": ["small", "medium", "large", "small"]})
    assert key_of(sizes, Colour("size", "size", ordered=True)).values == ("small", "medium", "large")
    # One legend for both: only with equal titles and domains are they merged.
    assert by_rule["color"]["legend"] == by_rule["shape"]["legend"]


@pytest.mark.parametrize("number", [MOST_IN_LEGEND, MOST_IN_LEGEND + 1])
def test_a_legend_names_all_values_or_none(number: int) -> None:
    data = pl.DataFrame({"seed": range(number), "trace": range(1, number + 1), "accuracy": [0.5] * number})
    dots = Dots(Axis("trace", "trace"), Axis("accuracy", "accuracy"), Colour("seed", "seed"))
    whole, svg = painted(dots, data)
    found = whole["layer"][-1]["encoding"]
    assert {found["color"]["legend"] is None, found["shape"]["legend"] is None} == {number > MOST_IN_LEGEND}
    assert "entries" not in svg


def test_no_two_of_many_names_share_colour_and_shape() -> None:
    names = [f"rule-{k}" for k in range(2 * len(PALETTE))]
    data = pl.DataFrame({"rule": names, "trace": [1.0 + k for k in range(len(names))]})
    encoding = specification(Dots(TRACE, TRACE, RULE), data)["layer"][-1]["encoding"]
    pairs = zip(encoding["color"]["scale"]["range"], encoding["shape"]["scale"]["range"], strict=True)
    assert len(set(pairs)) == len(names)
    assert set(encoding["shape"]["scale"]["range"]) == set(SHAPES)


@pytest.mark.thorough
def test_predictions_are_dashed_lines_without_dots_and_a_rule_marks_x() -> None:
    data = pl.concat([rows(predicted=False), rows(predicted=True)])
    chart = Lines(STEP, TRACE, WIDTH, "run", predicted="predicted", marked=Mark(700, "converged"))
    found, _ = painted(chart, data)
    assert marks(found) == ["rule", "text", "line", "rule", "point"]
    assert found["layer"][0]["mark"]["strokeDash"] == [5, 4]
    kinds = found["layer"][2]["encoding"]["strokeDash"]["scale"]
    assert kinds == {"domain": ["measured", "predicted"], "range": [[1, 0], [6, 4]]}
    for layer in found["layer"][3:]:
        assert layer["transform"] == [{"filter": "(datum.kind === 'measured')"}]
    assert [row["x"] for row in drawn_rows(found) if "kind" not in row] == [700]
    assert sum(row.get("kind") == "predicted" for row in drawn_rows(found)) == len(rows())
    beginning = replace(chart, dashed="start")
    kinds = specification(beginning, data)["layer"][2]["encoding"]["strokeDash"]["scale"]
    assert kinds["domain"] == ["measured", "start"]


def test_the_line_that_the_legend_of_dashes_names_has_no_dot_in_the_other_legend() -> None:
    data = pl.concat([rows(predicted=False), rows(predicted=True).with_columns(rule=pl.lit("start"))])
    chart = Lines(STEP, TRACE, RULE, "run", predicted="predicted", dashed="start")
    encodings = [layer["encoding"] for layer in specification(chart, data)["layer"]]
    legends = [each[by]["legend"] for each in encodings for by in ("color", "shape") if by in each]
    assert all("start" not in legend["values"] for legend in legends)
    assert "start" in encodings[0]["color"]["scale"]["domain"]
    alone = specification(chart, data.filter(pl.col("rule") == "start"))["layer"][0]["encoding"]
    assert alone["color"]["legend"] is None


def test_a_category_is_a_row_and_colours_lie_side_by_side_in_it() -> None:
    found = specification(Categories("rule", ACCURACY, WIDTH), rows())
    assert marks(found) == ["rule", "point"]
    assert found["layer"][1]["encoding"]["y"]["field"] == "category"
    assert found["layer"][1]["encoding"]["yOffset"]["field"] == "colour"
    alone = specification(Categories("rule", ACCURACY, RULE), rows())
    assert "yOffset" not in alone["layer"][1]["encoding"]


@pytest.mark.parametrize(
    "chart",
    [
        Dots(TRACE, ACCURACY, WIDTH),
        Lines(STEP, TRACE, WIDTH, "run"),
        Categories("rule", TRACE, RULE),
        Bars("rule", TRACE, WIDTH),
    ],
)
def test_what_is_pointed_at_is_named_after_the_chart_so_that_charts_can_share_a_picture(chart: Chart) -> None:
    found, _ = painted(chart, rows())
    names = [parameter["name"] for parameter in found["params"]]
    assert names
    assert all(name.endswith("_panel_0") for name in names)


def test_a_table_shows_each_value_with_its_error() -> None:
    markup = draw(Table((Axis("rule", "<rule>"), TRACE, Axis("missing", "missing"))), rows()[:1], "panel_0")
    assert isinstance(markup, Markup)
    assert '<th scope="col">&lt;rule&gt;</th>' in markup
    assert "<td>SGD</td>" in markup
    assert '<td class="number">90.0 ± 1.0</td><td>–</td>' in markup


@pytest.mark.parametrize(
    "chart", [Dots(TRACE, ACCURACY, WIDTH), Lines(STEP, TRACE, WIDTH, "run"), Categories("rule", TRACE, RULE)]
)
def test_what_has_not_been_measured_is_said_and_not_drawn(chart: Chart) -> None:
    assert draw(chart, rows().drop("trace"), "panel_0") == NOTHING
    assert draw(chart, rows(trace=None), "panel_0") == NOTHING
    assert draw(chart, pl.DataFrame(), "panel_0") == NOTHING
    assert draw(chart, rows().drop("trace_error"), "panel_0") != NOTHING


def test_a_logarithmic_axis_leaves_out_what_it_cannot_show_and_cuts_bars_that_reach_zero() -> None:
    data = pl.DataFrame(
        {"t": [4.0, 2.0, 0.0, -1.0, None, float("nan"), float("inf")], "e": [1.0, 9.0] + [0.1] * 5}
    )
    frame = plotted(data, {"y": TRACE_OF_T}, None)
    assert frame["y"].to_list() == [4.0, 2.0]
    assert frame["y_low"].to_list() == [3.0, 2.0]
    assert frame["y_high"].to_list() == [5.0, 11.0]
    below = plotted(pl.DataFrame({"t": [10.0, 12.0], "e": [2.0, 3.0]}), {"y": TRACE_OF_T}, None)
    assert below["y_low"].to_list() == [8.0, 9.0]
    linear = plotted(data, {"y": Axis("t", "t", "e")}, None)
    assert linear["y_low"].to_list() == [3.0, -7.0, -0.1, -1.1]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "numbers",
    [
        *((76.0, 90.0), (0.011, 0.035)),
        *(pytest.param(each, marks=pytest.mark.thorough) for each in ((3.2, 4.9), (20.0, 90.0))),
    ],
)
def test_a_logarithmic_axis_without_a_power_of_ten_has_labels(numbers: tuple[float, float]) -> None:
    data = pl.DataFrame({"run": ["a", "a"], "step": [5, 7], "trace": numbers, "width": [16, 16]})
    _, svg = painted(Lines(Axis("step", "step"), TRACE, WIDTH, "run"), data)
    labels = re.findall(r">([\d.]+)</text>", svg)
    _, svg = painted(Lines(Axis("step", "size", logarithmic=True), TRACE, WIDTH, "run"), data)
    assert {">5</text>", ">7</text>"} <= {*re.findall(r">[\d.]+</text>", svg)}
    shown = [float(label) for label in labels if numbers[0] / 1.2 <= float(label) <= 1.2 * numbers[1]]
    assert len({*shown} - {5.0, 5.5, 6.0, 6.5, 7.0}) >= 3


def test_columns_may_have_any_names() -> None:
    """Vega interprets dots and brackets in names as paths into objects, and colons as types."""
    data = rows().rename({"trace": "trace[0.05]: a.b"})
    found, _ = painted(Dots(Axis("trace[0.05]: a.b", "t"), ACCURACY, WIDTH), data)
    assert next(row["x"] for row in drawn_rows(found) if "x_text" in row) == 90.0


def test_a_landscape_has_cells_lines_and_a_dot_on_one_scale() -> None:
    grid = pl.DataFrame(
        {"u": [0.5, 1.5, 0.5, 1.5], "v": [0.5, 0.5, 1.5, 1.5], "height": [1.0, 2.0, 3.0, 4.0], "path": "loss"}
    )
    lines = pl.DataFrame(
        {"u": [0.1, 1.9, 1.0], "v": [1.9, 0.1, 1.0], "height": None, "path": ["flow", "flow", "flattest"]},
        schema=grid.schema,
    )
    chart = Landscape(Axis("u", "u"), Axis("v", "v"), Axis("height", "loss"), Colour("path", "path"))
    drawn = draw(chart, pl.concat([grid, lines]), "a")
    marks = [layer["mark"]["type"] for layer in drawn["layer"]]
    assert marks == ["rect", "line", "point"]
    assert drawn["width"] == drawn["height"]
    assert drawn["layer"][0]["encoding"]["x"]["scale"]["domain"] == [0.0, 2.0]
    assert drawn["layer"][1]["encoding"]["color"]["scale"]["domain"] == ["flow", "flattest"]
    assert draw(chart, lines, "a") == draw(chart, pl.DataFrame(), "a") == NOTHING
