"""Panels of models that were polished to equal KL: what is measured of them, against the trace."""

from dataclasses import replace

import polars as pl

from isoloss.experiments.equal_knowledge import POLISHED, STAGE
from isoloss.experiments.figures import ACCURACY, LOG_KL, TRACE, trace_bars
from isoloss.experiments.scale import STANDARDISED, MeasurementSizes
from isoloss.measurements.robustness import bits_column, noise_column
from isoloss.panels import Axis, Chart, Colour, Dots, Panel, Table

ACCURACY_100, ACCURACY_300, STANDARDISED_300 = "accuracy_100", "accuracy_300", f"{STANDARDISED}_300"
CENTRED, LONGER = "centred_accuracy", "longer_centred_accuracy"
CENTRED_300, LONGER_300 = f"{CENTRED}_300", f"{LONGER}_300"
FEATURE_MEAN = "feature_mean_square"
OTHER_TASK = "other_task_accuracy"
BY_BRANCH = Colour("branch", "branch")
START = "start"

PROBES = (
    Axis(ACCURACY_300, "accuracy from 300 examples", f"{ACCURACY_300}_error"),
    Axis(ACCURACY_100, "accuracy from 100 examples", f"{ACCURACY_100}_error"),
    replace(ACCURACY, error="accuracy_error"),
    Axis(STANDARDISED_300, "accuracy from 300, features standardised", f"{STANDARDISED_300}_error"),
    Axis(CENTRED_300, "accuracy from 300, features centred", f"{CENTRED_300}_error"),
    Axis(LONGER_300, "accuracy from 300, centred, trained ten times as long", f"{LONGER_300}_error"),
    Axis(FEATURE_MEAN, "squared length of the features' mean", f"{FEATURE_MEAN}_error", logarithmic=True),
    Axis(OTHER_TASK, "accuracy on the second task", f"{OTHER_TASK}_error"),
)
DAMAGE = tuple(
    Axis(column, title, f"{column}_error", logarithmic=True)
    for column, title in (
        (noise_column(0.01), "KL under weight noise of 0.01 (nats)"),
        (bits_column(6), "KL at 6 bits (nats)"),
        (bits_column(4), "KL at 4 bits (nats)"),
        ("forgotten_kl", "KL after learning a second language (nats)"),
    )
)
BARS = "One dot per start and branch, polished to equal KL; bars are one standard error. "
PLACES = (Axis("branch", "branch"), Axis("width", "width"), Axis("seed", "seed"))


def polished_rows(table: pl.DataFrame) -> pl.DataFrame:
    """Those of polished models, with what each was polished from, but for its branch, as `start`."""
    start = pl.format("seed {}, width {}, {}", "seed", "width", "language")
    return table.filter(pl.col(STAGE) == POLISHED).with_columns(start.alias(START))


def _against_the_trace(axes: tuple[Axis, ...]) -> tuple[Dots, ...]:
    return tuple(Dots(TRACE, axis, BY_BRANCH, START) for axis in axes)


def polished_panel(
    table: pl.DataFrame,
    sizes: MeasurementSizes,
    name: str,
    title: str,
    axes: tuple[Axis, ...],
    shows: tuple[str, ...],
) -> tuple[Panel, ...]:
    """What has been measured of `axes` against the trace, and as a table; none before there are any."""
    if STAGE not in table.columns:
        return ()
    rows = polished_rows(table)
    shown = tuple(axis for axis in axes if axis.column in rows.columns)
    charts: tuple[Chart, ...] = (*_against_the_trace(shown), Table((*PLACES, LOG_KL, TRACE, *shown)))
    return (Panel(name, title, f"{BARS}{trace_bars(sizes)}", charts, rows, shows=shows),)


def panels_of_polished(table: pl.DataFrame, sizes: MeasurementSizes) -> tuple[Panel, ...]:
    """Those of `polished_models`: the claims' quantities, every other one, and the way to them."""
    if STAGE not in table.columns:
        return ()
    rows = polished_rows(table)
    probes, damage = (tuple(axis for axis in of if axis.column in rows.columns) for of in (PROBES, DAMAGE))
    return (
        Panel(
            "equal-knowledge",
            "What changes with flatness at equal KL, and what does not",
            f"{BARS}{trace_bars(sizes)}First downstream accuracy, then what damage to the weights costs.",
            _against_the_trace((*probes[:1], *damage[:2])),
            rows,
            shows=("flatter-is-no-better", "noise-harms-the-sharper", "rounding-harms-the-sharper"),
        ),
        Panel(
            "everything",
            "Every probe, and every damage",
            BARS,
            (*_against_the_trace((*probes[1:], *damage[2:])), Table((*PLACES, LOG_KL, TRACE, *probes))),
            rows,
        ),
        Panel(
            "way",
            "Starts and branches, before and after polishing",
            f"One dot per model. {trace_bars(sizes)}",
            (Dots(LOG_KL, TRACE, Colour(STAGE, "stage")), Dots(LOG_KL, TRACE, BY_BRANCH)),
            table,
        ),
    )
