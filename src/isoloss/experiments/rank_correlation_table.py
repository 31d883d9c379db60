"""Which measure ranks the outcome best: every measure by every coefficient, with its interval over seeds."""

from collections.abc import Sequence

import polars as pl

from isoloss.experiments.claims import CONFIDENCE
from isoloss.experiments.statistics.bounded_estimate import BoundedEstimate
from isoloss.experiments.statistics.rank_correlation import (
    PartialRanking,
    Ranking,
    complete_rows,
    kendall_tau,
)
from isoloss.experiments.statistics.seed_bootstrap import Frames, SeedBootstrap, Statistic


def rank_correlation_table(
    runs: Frames,
    measures: Sequence[str],
    outcome: str = "accuracy",
    *,
    given: tuple[str, ...] = ("loss", "parameters"),
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> pl.DataFrame:
    """A row for each of `measures` and each of Spearman, Kendall (tau-b), and partial Spearman given `given`.

    All are of the same checkpoints, those that have every measure, the outcome and all of `given`: so many
    `checkpoints`, from so many `seeds`. Signs are those of `Ranking`: 1 where the least of the measure is the
    best. A measure that is itself among `given` is partialled on the others. `low` and `high` bound each
    number by itself with `confidence` (`BoundedEstimate`); to say that one measure ranks better than
    another, judge their `Advantage`.

    >>> runs = [
    ...     pl.DataFrame({"seed": s, "trace": [3.0, 2.0, 1.0 + s], "loss": [1.0, 2.0, 3.0 - s / 2],
    ...                   "parameters": 9, "accuracy": [0.1, 0.2, 0.3]}) for s in (1, 2, 3)]
    >>> table = rank_correlation_table(runs, ["trace", "loss"])
    >>> table.columns
    ['measure', 'coefficient', 'value', 'standard_error', 'low', 'high', 'confidence', 'checkpoints', 'seeds']
    >>> table.filter(measure="trace")["coefficient"].to_list()
    ['Spearman', 'Kendall', 'Spearman given loss and parameters']
    """
    wanted = list(dict.fromkeys([*measures, outcome, *given]))
    complete = [_complete(run, wanted) for run in runs]
    bootstrap = SeedBootstrap.of([run for run in complete if not run.is_empty()], seed)
    checkpoints = complete_rows(bootstrap.runs, wanted).shape[1]
    rows = []
    for measure in measures:
        others = tuple(name for name in given if name != measure)
        statistics: dict[str, Statistic] = {
            "Spearman": Ranking(measure, outcome),
            "Kendall": Ranking(measure, outcome, kendall_tau),
        }
        if others:
            statistics[f"Spearman given {' and '.join(others)}"] = PartialRanking(measure, outcome, others)
        for name, statistic in statistics.items():
            found = bootstrap.estimate(statistic)
            low, high = BoundedEstimate(found, limit=1.0).interval(confidence)
            rows.append(
                {
                    "measure": measure,
                    "coefficient": name,
                    "value": found.value,
                    "standard_error": found.standard_error,
                    "low": low,
                    "high": high,
                    "confidence": confidence,
                    "checkpoints": checkpoints,
                    "seeds": bootstrap.seeds,
                }
            )
    return pl.DataFrame(rows)


def _complete(run: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The run's rows with a finite number in each of the columns; none where it lacks a column."""
    if not set(columns) <= set(run.columns):
        return run.clear()
    return run.filter(pl.all_horizontal(pl.col(columns).cast(pl.Float64).is_finite()))
