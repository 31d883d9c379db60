"""Pictures of the drift: trace and accuracy over τ, and the trace over the distance of descent, ηk."""

from collections.abc import Sequence

import polars as pl

from isoloss.experiments.branches import DRIFT, PART, START, VARIED
from isoloss.experiments.drift_statistics import MODEL, AnyClock
from isoloss.experiments.schedules import Schedule
from isoloss.panels import Axis, Colour, Lines, Panel, Table

TIME = Axis("time", "time of the drift, τ = η²k / 4B", logarithmic=True)
DISTANCE = Axis("distance", "learning rate × steps, ηk", logarithmic=True)
TRACE = Axis("trace", "trace of the Hessian (Fisher form)", "trace_error", logarithmic=True)
ACCURACY = Axis("accuracy", "linear probe accuracy", "accuracy_error")
LOSS = Axis("loss", "exact pre-training loss (nats)", "loss_error")
RAW_LOSS = Axis("raw_loss", "loss of the raw weights (nats)", "raw_loss_error")
BY_SCHEDULE = Colour("pace", "SGD's η and B")
SEEDS = Axis("seeds", "seeds")
MEANS = ("trace", "root_fisher", "accuracy", "loss", "raw_loss")
EXAMPLES = Axis("examples", "labelled sentences", logarithmic=True)
STANDARDISED = "standardised_accuracy"
PROBES = ("accuracy", STANDARDISED)
OF_STANDARDISED = Axis(STANDARDISED, "accuracy, standardised features", f"{STANDARDISED}_error")


def drift_panels(table: pl.DataFrame) -> tuple[Panel, ...]:
    """For each model a panel over τ, and one with other axes; nothing if nothing has been measured."""
    if table.is_empty() or PART not in table.columns:
        return ()
    means = mean_over_seeds(table.filter(pl.col(PART).is_not_null()))
    return tuple(
        panel
        for rows in means.partition_by(MODEL, maintain_order=True)
        for panel in _of_model(rows, *rows.select(MODEL).row(0))
    )


def example_panels(table: pl.DataFrame, fewer: Sequence[int], train: int) -> tuple[Panel, ...]:
    """For each model both probes at the start and end of its schedules, with `train` and `fewer` sentences.

    Nothing for results from before they were measured.
    """
    if table.is_empty() or not {PART, STANDARDISED} <= {*table.columns}:
        return ()
    numbers = {**{f"_{number}": number for number in fewer}, "": train}
    ends = table.filter(pl.col(STANDARDISED).is_not_null())
    by = [*MODEL, "pace"]
    long = pl.concat(
        ends.select(*by, *(pl.col(f"{p}{suffix}").alias(p) for p in PROBES), examples=pl.lit(number))
        for suffix, number in numbers.items()
    )
    spread = [(pl.col(p).std() / pl.len().sqrt()).fill_null(0.0).alias(f"{p}_error") for p in PROBES]
    means = long.group_by([*by, "examples"], maintain_order=True).agg(
        *(pl.col(probe).mean() for probe in PROBES), *spread
    )
    charts = tuple(Lines(EXAMPLES, y, BY_SCHEDULE, "pace") for y in (ACCURACY, OF_STANDARDISED))
    return tuple(
        Panel(
            f"examples-{_key(*rows.select(MODEL).row(0))}",
            f"How many labelled examples does it take? {_title(*rows.select(MODEL).row(0))}",
            "The start and the last checkpoint of each schedule, with the paper's probe and with one on "
            "features of mean 0 and deviation 1. Shown for comparison; the claims do not use it. Dots are "
            "means over seeds, error bars their standard errors.",
            charts,
            rows,
        )
        for rows in means.partition_by(MODEL, maintain_order=True)
    )


def _key(language: str, width: int) -> str:
    return f"{language.replace(' ', '-')}-{width}"


def _title(language: str, width: int) -> str:
    return f"{language[0].upper()}{language[1:]}, width {width}"


def mean_over_seeds(table: pl.DataFrame, clock: AnyClock = Schedule) -> pl.DataFrame:
    """A row per model, schedule and checkpoint: means over seeds with their standard errors, 0 for one seed.

    Columns `time` and `distance`, both 0 at the start, and those of `MEANS` that have been measured.
    """
    known = [name for name in MEANS if name in table.columns]
    asked = [VARIED] if VARIED in table.columns else []
    by = [*MODEL, PART, *asked, "pace", "learning_rate", "batch_size", "step"]
    spread = [(pl.col(n).std() / pl.len().sqrt()).fill_null(0.0).alias(f"{n}_error") for n in known]
    for name in by:
        if name not in table.columns:  # if only starts have been measured
            table = table.with_columns(pl.lit(None, pl.Float64).alias(name))
    means = table.group_by(by, maintain_order=True).agg(
        *(pl.col(name).mean() for name in known), *spread, pl.len().alias("seeds")
    )
    times, distances = [], []
    for row in means.iter_rows(named=True):
        schedule = clock(row["learning_rate"], row["batch_size"]) if row["learning_rate"] else None
        times.append(schedule.time(row["step"]) if schedule else 0.0)
        distances.append(schedule.learning_rate * row["step"] if schedule else 0.0)
    return means.with_columns(pl.Series("time", times), pl.Series("distance", distances))


def _of_model(rows: pl.DataFrame, language: str, width: int) -> tuple[Panel, Panel]:
    where, key = _title(language, width), _key(language, width)
    bars = "Dots are means over seeds, error bars their standard errors."
    columns = [axis for axis in (TRACE, ACCURACY, LOSS, RAW_LOSS) if axis.column in rows.columns]
    charts = [
        Lines(TIME, axis, BY_SCHEDULE, "pace", predicted="beginning", dashed=START) for axis in columns[:2]
    ]
    over_distance = [Lines(DISTANCE, axis, BY_SCHEDULE, "pace") for axis in (TRACE, *columns[2:])]
    moved = rows.filter(pl.col(PART) != START)
    return (
        Panel(
            f"clock-{key}",
            f"Is there a single clock? {where}",
            "Trace and accuracy against τ = η²k̄ / 4B, where k̄ is the mean step of the averaged weights; "
            f"the dashed line is the start. The control has hardly any noise, and so hardly any τ. {bars}",
            tuple(charts),
            with_beginning(rows),
            "stacked",
        ),
        Panel(
            f"distance-{key}",
            f"Or is it the distance descended that matters? {where}",
            "Without noise, descent would follow ηk, and all runs would lie on one curve here. " + bars,
            (*over_distance, Table((Axis("pace", "schedule"), SEEDS, TIME, DISTANCE, *columns))),
            moved,
        ),
    )


def with_beginning(rows: pl.DataFrame) -> pl.DataFrame:
    """The start, which has no place on a logarithmic axis, as a line across the others' times."""
    start, moved = (rows.filter(side) for side in (pl.col(PART) == START, pl.col(PART) != START))
    drifting = moved.filter(pl.col(PART) == DRIFT)["time"]
    ends = [start.with_columns(time=pl.lit(end)) for end in (drifting.min(), drifting.max()) if end]
    marked = [part.with_columns(beginning=pl.lit(value=True)) for part in ends]
    return pl.concat([*marked, moved.with_columns(beginning=pl.lit(value=False))])
