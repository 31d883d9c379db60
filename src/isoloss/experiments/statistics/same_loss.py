"""Compares runs at the same loss: interpolated between checkpoints, or at the steps where losses agree."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from scipy.optimize import isotonic_regression

from isoloss.errors import BadInput
from isoloss.experiments.statistics.seed_bootstrap import Frames, once_per_frames
from isoloss.measurements.matched_losses import (
    MatchedCheckpoint,
    MatchedLosses,
    StepCurve,
    interpolated_to_loss,
)
from isoloss.results.estimate import Estimate

ROWS = {
    "rule": pl.String,
    "seed": pl.Int64,
    "against": pl.String,
    "step": pl.Float64,
    "loss": pl.Float64,
    "loss_error": pl.Float64,
    "same_loss": pl.String,
}
LOSS_WINDOW = 0.005
"""Widest spread of losses, as a share of the mean loss, that still counts as one loss. The paper's own
window, 3.204 to 3.208 nats, is 0.0012 wide in these terms, and its losses lie 0.0025 to 0.004 above its
entropy: what is not learnt yet is of that order, and so is what may differ."""
PAPER_WINDOW = 0.0012
"""The paper's own, as a share of the loss (Figure 1)."""

Comparison = Callable[[float, float], float]
"""From a run's number and the reference run's to one number."""


@dataclass(frozen=True)
class RunAtLoss:
    """One run where it has a loss: between two checkpoints, in general."""

    frame: pl.DataFrame
    point: MatchedCheckpoint

    def value(self, column: str) -> Estimate:
        """The run's value there; its error includes the uncertainty of the step."""
        return curve(self.frame, column, f"{column}_error").at(self.point.step, self.point.log_step_error)

    @property
    def loss(self) -> Estimate:
        """The loss measured there, which `falling` may have averaged with others to find the step."""
        measured = curve(self.frame, "loss", _loss_error(self.frame))
        return replace(self.point.loss, value=measured.at(self.point.step).value)


@dataclass(frozen=True)
class SameLoss:
    """A run and the reference run of its seed, where each falls to the lowest loss that both reach."""

    run: RunAtLoss
    reference: RunAtLoss
    losses: MatchedLosses

    @property
    def verdict(self) -> str:
        """Whether the measured losses are the same to within `LOSS_WINDOW`, as far as their errors tell."""
        points = tuple(replace(side.point, loss=side.loss) for side in (self.run, self.reference))
        return replace(self.losses, points=points).verdict.answer


@once_per_frames
def at_same_loss(run: pl.DataFrame, reference: pl.DataFrame) -> SameLoss | None:
    """The two runs at the same loss; None if their checkpoints have none in common. See `matched_losses`."""
    losses = matched_losses((run, reference))
    if losses is None:
        return None
    here, there = losses.points
    return SameLoss(RunAtLoss(run, here), RunAtLoss(reference, there), losses)


def matched_losses(runs: Sequence[pl.DataFrame]) -> MatchedLosses | None:
    """Where each run falls to the lowest loss that all reach; None if they have none in common.

    The loss is the exact one, with the error of KL(distribution || model), since the entropy of the
    distribution is common to all. On real text, with its unknown distribution, it is the validation loss with
    its own error. Each run's losses are first made monotone by `falling`, so that a checkpoint with a low
    loss by chance is not a crossing. Steps between checkpoints are interpolated as in `interpolated_to_loss`.
    """
    error = _loss_error(runs[0])
    try:
        curves = [falling(curve(run, "loss", error)) for run in runs]
        return interpolated_to_loss(curves, LOSS_WINDOW * curves[-1].estimates[-1].value)
    except BadInput:
        return None


def _loss_error(run: pl.DataFrame) -> str:
    return "kl_error" if "kl_error" in run.columns else "loss_error"


def falling(losses: StepCurve) -> StepCurve:
    """The least-squares non-increasing curve, by isotonic regression (Barlow et al. 1972).

    An increase is averaged with the values before it, so that a fluctuating loss counts as reached where it
    has fallen for good on average. Errors remain those of the measurements.

    >>> losses = StepCurve("a", (1, 2, 4, 8), tuple(Estimate(v, 0.1, 50) for v in (3.0, 1.0, 2.0, 1.5)))
    >>> [estimate.value for estimate in falling(losses).estimates]
    [3.0, 1.5, 1.5, 1.5]
    """
    fitted = isotonic_regression([estimate.value for estimate in losses.estimates], increasing=False).x
    estimates = zip(losses.estimates, fitted.tolist(), strict=True)
    return replace(losses, estimates=tuple(replace(estimate, value=value) for estimate, value in estimates))


def mean_over_pairs(
    compared: Callable[[pl.DataFrame, pl.DataFrame], float],
    runs: Frames,
    rule: str,
    reference: str,
    label: str = "rule",
) -> float:
    """Mean over seeds of what the run of a rule and that of the reference give, where that is defined.

    Runs are told apart by the column `label`. It is nan if it is defined for no seed with both of them.
    """
    found = [_of_pair(compared, *pair) for pair in _pairs(runs, rule, reference, label)]
    known = [value for value in found if math.isfinite(value)]
    return float(np.mean(known)) if known else math.nan


@once_per_frames
def _of_pair(
    compared: Callable[[pl.DataFrame, pl.DataFrame], float], run: pl.DataFrame, reference: pl.DataFrame
) -> float:
    """The same in all resamples that have the pair's seed."""
    return compared(run, reference)


def _pairs(
    runs: Frames, rule: str, reference: str, label: str = "rule"
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Each run of `rule` with the reference run of its seed, where there is one."""
    named = [(run, *_label_and_seed(label, run)) for run in runs]
    references = {seed: run for run, of_rule, seed in named if of_rule == reference}
    return ((run, references[seed]) for run, of_rule, seed in named if of_rule == rule and seed in references)


@once_per_frames
def _label_and_seed(label: str, run: pl.DataFrame) -> tuple[str, int | None]:
    return run[label][0], run["seed"][0]


@dataclass(frozen=True)
class MeanAtSameLoss:
    """Mean over seeds of `compare(rule's, reference's)` at the same loss; nan without pairs."""

    rule: str
    reference: str
    column: str
    compare: Comparison

    def __call__(self, runs: Frames) -> float:
        return mean_over_pairs(self._compared, runs, self.rule, self.reference)

    def _compared(self, run: pl.DataFrame, reference: pl.DataFrame) -> float:
        pair = at_same_loss(run, reference)
        if pair is None:
            return math.nan
        return self.compare(*(side.value(self.column).value for side in (pair.run, pair.reference)))


def doublings(value: float, reference: float) -> float:
    """How many times the reference doubles on the way to the value.

    >>> doublings(20.0, 5.0)
    2.0
    """
    return float(np.log2(value / reference))


def percentage_points(value: float, reference: float) -> float:
    """The difference of two fractions, in percentage points."""
    return 100 * (value - reference)


@once_per_frames
def curve(run: pl.DataFrame, column: str, error: str) -> StepCurve:
    """A column of a run's frame, with its error and its number of sentences, over the steps."""
    names = ("step", column, error, f"{column}_sentences")
    columns = (run[name].to_list() for name in names)
    rows = sorted(row for row in zip(*columns, strict=True) if None not in row)
    return StepCurve(
        str(run["run"][0]), tuple(row[0] for row in rows), tuple(Estimate(*row[1:]) for row in rows)
    )


def rows_at_same_loss(
    table: pl.DataFrame, rules: Sequence[str], reference: str, columns: Sequence[str]
) -> pl.DataFrame:
    """Two rows per pair: a rule's run and the reference run of its seed, each where it has the pair's loss.

    Pairs without a common loss are left out.

    `against` is the rule of the pair, also in the reference's row; `step` lies between two checkpoints in
    general. Each of `columns` comes with its standard error.
    """
    schema = ROWS | {name: pl.Float64 for column in columns for name in (column, f"{column}_error")}
    runs = table.filter("complete", pl.col("step").is_not_null())
    frames = runs.partition_by("run", maintain_order=True) if not runs.is_empty() else []
    rows = [
        row
        for rule in rules
        for run, beside in _pairs(frames, rule, reference)
        if (pair := at_same_loss(run, beside)) is not None
        for row in _rows(rule, pair, columns)
    ]
    return pl.DataFrame(rows, schema=schema)


def _rows(rule: str, pair: SameLoss, columns: Sequence[str]) -> list[dict[str, object]]:
    rows = []
    for side in (pair.reference, pair.run):
        row: dict[str, object] = {
            "rule": side.frame["rule"][0],
            "seed": side.frame["seed"][0],
            "against": rule,
            "step": side.point.step,
            "loss": side.loss.value,
            "loss_error": side.loss.standard_error,
            "same_loss": pair.verdict,
        }
        for column in columns:
            estimate = side.value(column)
            row |= {column: estimate.value, f"{column}_error": estimate.standard_error}
        rows.append(row)
    return rows


def mean_over_runs(rows: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """One row per update rule, in order: means over runs with standard errors, null for a single run."""
    spread = [(pl.col(c).std() / pl.len().sqrt()).alias(f"{c}_error") for c in columns]
    means = [pl.col(column).mean() for column in columns]
    return rows.group_by("rule", maintain_order=True).agg(*means, *spread, pl.len().alias("runs"))


@dataclass(frozen=True)
class MeanAtSameStep:
    """Mean over seeds of a rule's runs compared with the reference's, step by step, over the last doubling.

    The steps are those of the checkpoints that both runs have in the last doubling of steps of the rule's. A
    pair counts where the two losses differ by less than `window` of the reference's, which None switches off,
    as a loss that is itself compared demands. A seed without such a step is left out; nan if none is left.
    """

    rule: str
    reference: str
    column: str
    compare: Comparison
    window: float | None = LOSS_WINDOW

    def __call__(self, runs: Frames) -> float:
        return mean_over_pairs(self._compared, runs, self.rule, self.reference)

    def _compared(self, run: pl.DataFrame, reference: pl.DataFrame) -> float:
        pairs = at_same_steps(run, reference, (self.column, "loss"), self.window)
        values = [self.compare(row[self.column], row[f"{self.column}_reference"]) for row in pairs]
        return float(np.mean(values)) if values else math.nan


def at_same_steps(
    run: pl.DataFrame, reference: pl.DataFrame, columns: Sequence[str], window: float | None = LOSS_WINDOW
) -> list[dict[str, float]]:
    """The `columns` of both, the reference's with the suffix "_reference", at each step of the comparison.

    >>> loss = {"step": [5, 10, 20], "loss": [1.0, 1.0, 1.0]}
    >>> run, reference = pl.DataFrame(loss | {"trace": [9, 4, 2]}), pl.DataFrame(loss | {"trace": [9, 8, 8]})
    >>> [(row["trace"], row["trace_reference"]) for row in at_same_steps(run, reference, ["trace", "loss"])]
    [(4, 8), (2, 8)]
    """
    names = [name for name in dict.fromkeys(columns) if name != "step"]
    measured, others = (_by_step(frame, names) for frame in (run, reference))
    last = max((step for step in run["step"].to_list() if step is not None), default=0)
    beside = [f"{name}_reference" for name in names]
    rows = [
        {"step": step, **dict(zip((*names, *beside), (*measured[step], *others[step]), strict=True))}
        for step in sorted(measured.keys() & others.keys())
        if step >= last / 2
    ]
    return [row for row in rows if window is None or abs(row["loss"] / row["loss_reference"] - 1) < window]


def _by_step(frame: pl.DataFrame, names: Sequence[str]) -> dict[float, tuple[float, ...]]:
    """The values of these columns by step, where none is missing. A query would take far longer."""
    rows = zip(*(frame[name].to_list() for name in ("step", *names)), strict=True)
    return {step: tuple(values) for step, *values in rows if None not in (step, *values)}
