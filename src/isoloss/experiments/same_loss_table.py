"""Rows of a table whose runs are compared at one loss."""

from collections.abc import Sequence

import polars as pl

from isoloss.experiments.statistics.same_loss import SameLoss, pairs_at_same_loss

ROWS = {
    "rule": pl.String,
    "seed": pl.Int64,
    "against": pl.String,
    "step": pl.Float64,
    "loss": pl.Float64,
    "loss_error": pl.Float64,
    "same_loss": pl.String,
}


def rows_at_same_loss(
    table: pl.DataFrame, rules: Sequence[str], reference: str, columns: Sequence[str]
) -> pl.DataFrame:
    """Two rows a pair: a rule's run and the reference run of its seed, each where it has the pair's loss.

    `against` is the rule of the pair, also in the reference's row; `step` lies between two checkpoints in
    general. Each of `columns` comes with its standard error.
    """
    schema = ROWS | {name: pl.Float64 for column in columns for name in (column, f"{column}_error")}
    runs = table.filter("complete", pl.col("step").is_not_null()) if "step" in table.columns else table
    frames = runs.partition_by("run", maintain_order=True) if not runs.is_empty() else []
    pairs = [(rule, pair) for rule in rules for pair in pairs_at_same_loss(frames, rule, reference)]
    return pl.DataFrame([row for pair in pairs for row in _rows(*pair, columns)], schema=schema)


def _rows(rule: str, pair: SameLoss, columns: Sequence[str]) -> list[dict[str, object]]:
    rows = []
    for side in (pair.reference, pair.run):
        row: dict[str, object] = {
            "rule": side.frame["rule"][0],
            "seed": side.frame["seed"][0],
            "against": rule,
            "step": side.point.step,
            "loss": side.point.loss.value,
            "loss_error": side.point.loss.standard_error,
            "same_loss": pair.verdict,
        }
        for column in columns:
            estimate = side.value(column)
            row |= {column: estimate.value, f"{column}_error": estimate.standard_error}
        rows.append(row)
    return rows


def mean_over_runs(rows: pl.DataFrame, by: str, columns: Sequence[str]) -> pl.DataFrame:
    """A row a value of `by`, in order: means over runs with their standard errors, null for a single run."""
    spread = [(pl.col(c).std() / pl.len().sqrt()).alias(f"{c}_error") for c in columns]
    means = [pl.col(column).mean() for column in columns]
    return rows.group_by(by, maintain_order=True).agg(*means, *spread, pl.len().alias("runs"))
