"""Where the law of the drift fails: settings that it does not cover, beside the curve that it predicts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from isoloss.experiments.claims import Question
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.drift_panels import LOSS, TIME, TRACE, over_seeds
from isoloss.experiments.drift_runs import (
    DRIFT,
    PART,
    VARIANT,
    VARIED,
    Branch,
    DriftRuns,
    Measured,
    branched_runs,
    plain,
)
from isoloss.experiments.drift_statistics import MODEL, AnyClock, with_start
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.scale import Scale
from isoloss.experiments.schedules import Clock, Schedule, checkpoint_steps
from isoloss.experiments.shared.language_runs import at_scales, rounds_at, seeds_at
from isoloss.panels import Axis, Colour, Lines, Panel, Table
from isoloss.results.verdict import Verdict, below

BY_VARIANT = Colour("pace", "setting")
BAND = 0.25
"""The largest distance of a variant from the law's curve, over the fall, as in the claim on schedules."""


def changed(
    times: tuple[float, ...], schedule: Clock, varied: str, value: str = "", **changes: Any
) -> Branch:
    """A branch in which one setting has a value that the law does not cover, with checkpoints at these times.

    `schedule` is the clock that would apply if the law held: with momentum m, that of η / (1 - m). Without a
    `value`, it is itself what is changed.
    """
    branch = plain(schedule, checkpoint_steps(schedule, times))
    key = f"{varied.replace(' ', '-')}-{value.split()[-1] if value else schedule.key}"
    return replace(branch, part=VARIANT, variant=value or str(schedule), key=key, varied=varied, **changes)


def limit_variants(schedule: Schedule, times: tuple[float, ...]) -> tuple[Branch, ...]:
    """Rates above those of the drift, small batches, momentum, weight decay and dropout, from one schedule.

    >>> [each.variant for each in limit_variants(Schedule(0.2, 32), (0.1,)) if each.varied == "momentum"]
    ['m 0.5', 'm 0.9', 'm 0.99']
    """
    rate, rule, of = schedule.learning_rate, schedule.rule, partial(changed, times)
    faster = (Schedule(up * rate, more * schedule.batch_size) for up, more in ((3, 4), (4, 8), (5, 16)))
    smaller = (Schedule(rate / 4, batch) for batch in (8, 4, 2, 1))
    return (
        *(of(each, "learning rate") for each in faster),
        *(of(each, "small batches") for each in smaller),
        *(
            of(schedule, "momentum", f"m {m:g}", rule=replace(rule, learning_rate=rate * (1 - m), momentum=m))
            for m in (0.5, 0.9, 0.99)
        ),
        *(
            of(schedule, "weight decay", f"λ {decay:g}", rule=replace(rule, weight_decay=decay))
            for decay in (1e-4, 1e-3, 1e-2)
        ),
        *(of(schedule, "dropout", f"p {p:g}", dropout=p) for p in (0.01, 0.03, 0.1)),
    )


def limit_panels(table: pl.DataFrame, clock: AnyClock = Schedule, time: Axis = TIME) -> tuple[Panel, ...]:
    """A panel for each varied setting: its variants, the law's curve behind, and a sentence on the range."""
    if VARIED not in table.columns:
        return ()
    means = over_seeds(table.filter(pl.col(PART).is_in([DRIFT, VARIANT])), clock)
    found = distances(table)
    return tuple(
        _panel(varied, means, found.filter(pl.col(VARIED) == varied), time)
        for varied in means[VARIED].drop_nulls().unique(maintain_order=True)
    )


def distances(table: pl.DataFrame) -> pl.DataFrame:
    """A row a variant: its largest `distance` from the law's curve, over that one's fall, and its `error`.

    The law's curve is, for each seed, the mean of the plain schedules at a checkpoint; all have checkpoints
    at the same times. The error is the standard error over seeds at that checkpoint. Variants without a
    complete run are left out, as are such seeds.
    """
    complete = table.filter(pl.col("complete")).partition_by("run", maintain_order=True)
    runs = with_start(complete, ("trace",))
    if runs.is_empty():
        return pl.DataFrame(schema={VARIED: pl.String, "pace": pl.String, "distance": pl.Float64})
    fallen = (pl.col("start_trace") / pl.col("trace")).log(2).alias("fallen")
    runs = runs.with_columns(fallen, pl.col("step").rank().over("run").alias("place"))
    at = [*MODEL, "seed", "place"]
    law = runs.filter(pl.col(PART) == DRIFT).group_by(at).agg(pl.col("fallen").mean().alias("by_law"))
    fall = law.filter(pl.col("place") == pl.col("place").max())["by_law"].mean()
    apart = (pl.col("fallen") - pl.col("by_law")) / pl.lit(fall)
    return (
        runs.filter(pl.col(PART) == VARIANT)
        .join(law, on=at, maintain_order="left")
        .group_by(VARIED, "pace", "place", maintain_order=True)
        .agg(apart.mean().abs().alias("distance"), (apart.std() / pl.len().sqrt()).alias("error"))
        .sort("distance", descending=True)
        .unique([VARIED, "pace"], keep="first")
    )


def how_far(found: pl.DataFrame) -> str:
    """The rows of `distances` as a sentence; a value within one error of the bound is left open.

    >>> row = {"pace": "m 0.5", "distance": 0.1, "error": 0.02}
    >>> how_far(pl.DataFrame([row, {"pace": "m 0.9", "distance": 0.6, "error": None}]))
    "The clock holds at m = 0.5 (runs stray by 10 ± 2 % of the trace's fall), but not at m = 0.9 (60 %)."
    >>> how_far(pl.DataFrame([row, {"pace": "m 0.9", "distance": 0.6, "error": 0.4}]))
    "The clock holds at m = 0.5 (runs stray by 10 ± 2 % of the trace's fall); open at m = 0.9 (60 ± 40 %)."
    >>> how_far(pl.DataFrame([row | {"distance": 0.6}]))
    "The clock does not hold at m = 0.5 (runs stray by 60 ± 2 % of the trace's fall)."
    """
    if found.is_empty():
        return "No run is complete."
    by_verdict: dict[Verdict, list[str]] = {verdict: [] for verdict in Verdict}
    for place, row in enumerate(found.sort("distance").iter_rows(named=True)):
        error = "" if row["error"] is None else f" ± {100 * row['error']:.0f}"
        off = f"{100 * row['distance']:.0f}{error} %"
        strays = off if place else f"runs stray by {off} of the trace's fall"
        by_verdict[_verdict(row)].append(f"{_with_signs(row['pace'])} ({strays})")
    holds, fails, undecided = (_in_a_row(values) for values in by_verdict.values())
    parts = []
    if holds:
        parts.append(f"The clock holds at {holds}" + (f", but not at {fails}" if fails else ""))
    elif fails:
        parts.append(f"The clock does not hold at {fails}")
    if undecided:
        parts.append(f"{'open' if parts else 'Whether the clock holds is open'} at {undecided}")
    return f"{'; '.join(parts)}."


def _verdict(row: Mapping[str, Any]) -> Verdict:
    """Of one row of `distances`: a distance within one error of the bound decides nothing."""
    distance, error = row["distance"], row["error"] or 0.0
    return below(BAND).verdict(distance - error, distance + error)


def _with_signs(schedule: str) -> str:
    """The values of settings as equations.

    >>> _with_signs("η 0.6, B 128")
    'η = 0.6, B = 128'
    """
    return ", ".join(" = ".join(setting.split(" ", 1)) for setting in schedule.split(", "))


def _in_a_row(values: Sequence[str]) -> str:
    *first, last = values or [""]
    return f"{', '.join(first)} and {last}" if first else last


def findings(table: pl.DataFrame) -> tuple[str, ...]:
    """How many values the clock holds at, and a sentence for each thing that was varied: see `how_far`.

    Nothing is said before a run is complete.
    """
    found = distances(table)
    if found.is_empty():
        return ()
    varied = found[VARIED].unique(maintain_order=True).sort().to_list()
    holds = sum(_verdict(row) == Verdict.SUPPORTED for row in found.iter_rows(named=True))
    return (
        f"The clock holds at {holds} of {found.height} values of {_in_a_row(varied)}.",
        *(f"{each[0].upper()}{each[1:]}: {how_far(found.filter(pl.col(VARIED) == each))}" for each in varied),
    )


def _panel(varied: str, means: pl.DataFrame, found: pl.DataFrame, time: Axis) -> Panel:
    behind = pl.col(PART) == DRIFT
    rows = means.filter(behind | (pl.col(VARIED) == varied)).with_columns(behind.alias("behind"))
    sentence = how_far(found)
    without_numbers = re.sub(r" \(.*?\)", "", sentence[0].lower() + sentence[1:-1])
    return Panel(
        f"limit-{varied.replace(' ', '-')}",
        f"{varied[0].upper()}{varied[1:]}: {without_numbers}",
        f"{sentence} Dashed lines: plain SGD, in runs that differ only in learning rate and batch "
        "size. Dots are means over seeds, error bars their standard errors.",
        (
            Lines(time, TRACE, BY_VARIANT, "pace", predicted="behind", dashed="plain SGD"),
            Lines(time, LOSS, BY_VARIANT, "pace", predicted="behind", dashed="plain SGD"),
            Table((Axis("pace", "setting"), time, TRACE, LOSS)),
        ),
        rows,
    )


LIMIT_SEEDS = 3
"""Number of seeds."""

FOR_LAPTOPS, FOR_CARDS = Schedule(0.2, 32), Schedule(0.2, 256)
CHANGED = at_scales(Schedule(0.4, 8), FOR_LAPTOPS, FOR_LAPTOPS, FOR_CARDS, FOR_CARDS)
"""The schedule that the variants differ from."""


def drift_limits(scale: Scale, short: DriftRuns) -> Experiment:
    """The law's curve from a few runs of the drift in short, and the variants from the same starts."""
    sizes = scale.sizes
    measured = Measured((sizes.loss(), sizes.trace()))
    branches = (
        *(plain(schedule, short.steps(schedule)) for schedule in short.schedules),
        *limit_variants(CHANGED[scale.name], short.times),
    )
    return Experiment(
        name="drift-limits",
        question=Question.THEORY,
        title="How far does SGD's clock tell the time?",
        text=(
            "Theorem 3.3 is about small learning rates and about SGD without momentum, weight decay or "
            "dropout. Here each of these is changed on its own, from the starting points of the drift "
            "experiment, and the trace is compared with the curve of plain SGD: over τ = η²k / 4B, with η / "
            "(1 - m) in place of η where there is a momentum m.",
            f"The clock is said to hold if the trace never departs from that curve by more than "
            f"{100 * BAND:g} % of its fall, the bound claimed for the runs of the drift experiment; where "
            "one standard error reaches across the bound, it is left open. Nothing here is a claim: the "
            "experiment looks for where the law breaks down, and each panel says what was found.",
        ),
        runs=branched_runs(scale.grammar, short.widths, scale.seeds[:LIMIT_SEEDS], branches, measured),
        panels=limit_panels,
    )


SMOKE = DriftRuns(
    widths=(16,),
    schedules=(Schedule(0.4, 8), Schedule(0.2, 8)),
    times=(0.01, 0.02, 0.03),
    control_checkpoints=2,
)

LAPTOP = DriftRuns(
    widths=(32,),
    schedules=(Schedule(0.1, 32), Schedule(0.2, 64), Schedule(0.4, 128)),
    times=(0.0125, 0.03, 0.08, 0.2),
    control_checkpoints=2,
)
"""η²/B differ fourfold at one η/B, by which the noise adds to the loss; docs/pilots.md has why."""

NIGHT = DriftRuns(
    widths=(32,),
    schedules=(Schedule(0.2, 32), Schedule(0.1, 32), Schedule(0.4, 128)),
    times=(0.0125, 0.03, 0.08, 0.2, 0.5, 1.0, 2.0),
    control_checkpoints=4,
)

PAPER = DriftRuns(
    widths=(512,),
    schedules=(Schedule(0.2, 256), Schedule(0.1, 256), Schedule(0.4, 1024)),
    times=(0.0125, 0.03, 0.08, 0.2),
    control_checkpoints=3,
)
"""No pilot has been run at this scale."""

SETTINGS = at_scales(SMOKE, LAPTOP, NIGHT, replace(PAPER, widths=(128,)), PAPER)


EXPERIMENT = Design(
    lambda scale: drift_limits(scale, SETTINGS[scale.name]),
    seeds=seeds_at(night="251-253"),
    earlier_seeds=rounds_at(laptop="111-113", night="241-243"),
    takes_a_language=True,
    picture=Picture(
        "limit-learning-rate",
        "Trace of the Hessian over the drift's time at rates that are higher and higher",
    ),
    findings=findings,
)
