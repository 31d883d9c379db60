"""Pictures of the drift: trace and accuracy over τ, and the trace over the distance of descent, ηk."""

from dataclasses import dataclass

import polars as pl

from isoloss.experiments.drift_runs import DRIFT, PART, START, VARIED
from isoloss.experiments.drift_statistics import MODEL, AnyClock, Centre, with_start
from isoloss.experiments.schedules import RelativeSchedule, Schedule
from isoloss.panels import Axis, Colour, Dots, Lines, Panel, Table

TIME = Axis("time", "time of the drift, τ = η²k / 4B", logarithmic=True)
RELATIVE_TIME = Axis("time", "time of the drift, 4τ / η*², with τ = η²k / 4B", logarithmic=True)
RELATIVE_DISTANCE = Axis("distance", "learning rate × steps, (η/η*)k", logarithmic=True)
"""η* is the rate that is stable at the start."""
TRACE = Axis("trace", "trace of the Hessian (Fisher form)", "trace_error", logarithmic=True)
ACCURACY = Axis("accuracy", "linear probe accuracy", "accuracy_error")
LOSS = Axis("loss", "exact pre-training loss (nats)", "loss_error")
RAW_LOSS = Axis("raw_loss", "loss of the raw weights (nats)", "raw_loss_error")
BY_SCHEDULE = Colour("pace", "SGD's η and B")
SEEDS = Axis("seeds", "seeds")
FOLLOWED = ("trace", "root_fisher", "accuracy", "loss", "raw_loss")
RISE = Axis("rise", "largest rise of the loss, as a share of it")
FALLEN = Axis("fallen", "fall of the trace (halvings)")
SHARE_LEFT = Axis("share_left", "share of the schedule's runs that leave")
LEFT = 0.005
"""Of the loss at the start: the premise of one loss."""


@dataclass(frozen=True)
class OverSeeds:
    """How values of several seeds are summarised, the error of that, and both in words."""

    centre: Centre
    error: Centre
    bars: str


MEAN = OverSeeds(
    pl.Expr.mean,
    lambda values: values.std() / values.len().sqrt(),
    "Dots are means over seeds, error bars their standard errors.",
)
MEDIAN = OverSeeds(
    pl.Expr.median,
    lambda values: 0.93 * (values.quantile(0.75) - values.quantile(0.25)) / values.len().sqrt(),
    "Dots are medians over seeds, error bars their standard errors by the distance of the quartiles.",
)
"""Of n normal values, the median's standard error is 1.253 σ / √n and the quartiles are 1.349 σ apart."""


def drift_panels(table: pl.DataFrame) -> tuple[Panel, ...]:
    """For each model a panel over τ, and one over ηk.

    Rates are shares of the stable one, as a `RelativeSchedule` has them, and all is the median over seeds.
    """
    medians = over_seeds(table, RelativeSchedule, MEDIAN)
    return tuple(
        panel
        for rows in medians.partition_by(MODEL, maintain_order=True)
        for panel in _of_model(rows, *rows.select(MODEL).row(0))
    )


def leaving_panels(table: pl.DataFrame) -> tuple[Panel, ...]:
    """Which runs have left their minimum, by schedule; nothing until loss and trace have been measured."""
    if not {"loss", "trace"} <= {*table.columns}:
        return ()
    rows = leaving(table)
    if rows.is_empty():
        return ()
    gone = rows.filter("left")
    named = f": {', '.join(gone['run'].to_list())}" if gone.height else ""
    by = [*MODEL, "pace"]
    shares = pl.col("left").mean().over(by).alias("share_left")
    return (
        Panel(
            "leaving",
            "Do runs leave their minimum?",
            f"{gone.height} of {rows.height} runs leave their minimum{named}. One has left if the loss of "
            f"its averaged weights is at any checkpoint more than {100 * LEFT:g} % above that of its start. "
            "One dot a run, at its last checkpoint.",
            (
                Dots(RISE, FALLEN, BY_SCHEDULE),
                Table((Axis("run", "run"), Axis("pace", "schedule"), RISE, FALLEN, SHARE_LEFT)),
            ),
            rows.with_columns(shares),
            shows=("loss-stands",),
        ),
    )


def leaving(table: pl.DataFrame) -> pl.DataFrame:
    """A row a run: its largest `rise` of the loss, how far the trace has `fallen`, and whether it `left`."""
    runs = with_start(table.partition_by("run", maintain_order=True), ("loss", "trace"))
    if runs.is_empty():
        return runs
    rise = (pl.col("loss") / pl.col("start_loss") - 1).max().alias("rise")
    fallen = (pl.col("start_trace") / pl.col("trace")).log(2).last().alias("fallen")
    drifting = runs.filter((pl.col(PART) == DRIFT) & pl.col("start_loss").is_not_null())
    return (
        drifting.group_by("run", "seed", *MODEL, "pace", maintain_order=True)
        .agg(rise, fallen)
        .with_columns(left=pl.col("rise") > LEFT)
    )


def over_seeds(table: pl.DataFrame, clock: AnyClock = Schedule, summary: OverSeeds = MEAN) -> pl.DataFrame:
    """A row per model, schedule and checkpoint: means or medians over seeds with their standard errors.

    The error of one seed is 0. Columns `time` and `distance`, both 0 at the start, and those of `FOLLOWED`
    that have been measured.
    """
    known = [name for name in FOLLOWED if name in table.columns]
    asked = [VARIED] if VARIED in table.columns else []
    by = [*MODEL, PART, *asked, "pace", "learning_rate", "batch_size", "step"]
    spread = [summary.error(pl.col(n)).fill_null(0.0).alias(f"{n}_error") for n in known]
    for name in by:
        if name not in table.columns:  # if only starts have been measured
            table = table.with_columns(pl.lit(None, pl.Float64).alias(name))
    means = table.group_by(by, maintain_order=True).agg(
        *(summary.centre(pl.col(name)) for name in known), *spread, pl.len().alias("seeds")
    )
    times, distances = [], []
    for row in means.iter_rows(named=True):
        schedule = clock(row["learning_rate"], row["batch_size"]) if row["learning_rate"] else None
        times.append(schedule.time(row["step"]) if schedule else 0.0)
        distances.append(schedule.learning_rate * row["step"] if schedule else 0.0)
    return means.with_columns(pl.Series("time", times), pl.Series("distance", distances))


def _of_model(rows: pl.DataFrame, language: str, width: int) -> tuple[Panel, Panel]:
    key, where = (
        f"{language.replace(' ', '-')}-{width}",
        f"{language[0].upper()}{language[1:]}, width {width}",
    )
    columns = [axis for axis in (TRACE, ACCURACY, LOSS, RAW_LOSS) if axis.column in rows.columns]
    # Where accuracy was not followed, it is in the table alone.
    over_time = [axis for axis in columns[:2] if not rows[axis.column].has_nulls()]
    charts = [
        Lines(RELATIVE_TIME, axis, BY_SCHEDULE, "pace", predicted="beginning", dashed=START)
        for axis in over_time
    ]
    over_distance = [Lines(RELATIVE_DISTANCE, axis, BY_SCHEDULE, "pace") for axis in (TRACE, *columns[2:])]
    moved = rows.filter(pl.col(PART) != START)
    return (
        Panel(
            f"clock-{key}",
            f"Is there a single clock? {where}",
            "Trace and accuracy against 4τ / η*² = (η/η*)² k̄ / B, where k̄ is the mean step of the averaged "
            "weights; the dashed line is the start. The control has hardly any noise, and so hardly any τ. "
            f"{MEDIAN.bars}",
            tuple(charts),
            with_beginning(rows),
            "stacked",
            ("trace-falls", "one-clock"),
        ),
        Panel(
            f"distance-{key}",
            f"Or is it the distance descended that matters? {where}",
            "Without noise, descent would follow ηk, and all runs would lie on one curve here. "
            + MEDIAN.bars,
            (
                *over_distance,
                Table((Axis("pace", "schedule"), SEEDS, RELATIVE_TIME, RELATIVE_DISTANCE, *columns)),
            ),
            moved,
            shows=("no-noise-no-fall",),
        ),
    )


def with_beginning(rows: pl.DataFrame) -> pl.DataFrame:
    """The start, which has no place on a logarithmic axis, as a line across the others' times."""
    start, moved = (rows.filter(side) for side in (pl.col(PART) == START, pl.col(PART) != START))
    drifting = moved.filter(pl.col(PART) == DRIFT)["time"]
    ends = [start.with_columns(time=pl.lit(end)) for end in (drifting.min(), drifting.max()) if end]
    marked = [part.with_columns(beginning=pl.lit(value=True)) for part in ends]
    return pl.concat([*marked, moved.with_columns(beginning=pl.lit(value=False))])
