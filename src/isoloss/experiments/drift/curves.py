"""Runs of SGD as curves over the drift's time: how far the trace has fallen since their start."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Float

from isoloss.experiments.drift.clock import Pace
from isoloss.experiments.drift.runs import PART, START

MODEL = ("language", "width")
"""The columns that tell whose curves can lie on one another: those from the same starts."""


@dataclass(frozen=True)
class Curve:
    """One pace from the models of one width on one language, at its n checkpoints, as the mean over seeds.

    `fallen` is log2(trace at the start / trace), in halvings.
    """

    model: tuple[str, int]
    part: str
    pace: Pace
    times: Float[np.ndarray, " n"]
    fallen: Float[np.ndarray, " n"]


def with_start(runs: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """All checkpoints of SGD with their start's `start_trace`, `start_loss` and `start_accuracy`.

    Frames of runs that have no part in the drift are left out, and so are runs whose start is not there.
    """
    own = [run for run in runs if PART in run.columns and run[PART][0] is not None]
    if not own:
        return pl.DataFrame()
    table = pl.concat(own, how="diagonal_relaxed")
    starts = table.filter(pl.col(PART) == START).select(
        "seed", *MODEL, *(pl.col(name).alias(f"start_{name}") for name in ("trace", "loss", "accuracy"))
    )
    return table.filter(pl.col(PART) != START).join(starts, on=["seed", *MODEL], maintain_order="left")


def curves(runs: Sequence[pl.DataFrame], *parts: str) -> list[Curve]:
    """A curve for each pace of these `parts`, of each model."""
    table = with_start(runs)
    if table.is_empty():
        return []
    fallen = (pl.col("start_trace") / pl.col("trace")).log(2)
    by = [*MODEL, PART, "learning_rate", "batch_size"]
    means = table.filter(pl.col(PART).is_in(parts)).group_by(*by, "step").agg(fallen.mean().alias("fallen"))
    return [_curve(rows) for rows in means.sort(*by, "step").partition_by(by, maintain_order=True)]


def _curve(rows: pl.DataFrame) -> Curve:
    first = rows.row(0, named=True)
    pace = Pace(first["learning_rate"], first["batch_size"])
    times = np.array([pace.time(step) for step in rows["step"].to_list()])
    model = (first["language"], first["width"])
    return Curve(model, first[PART], pace, times, rows["fallen"].to_numpy())
