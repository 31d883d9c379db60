"""From one start, four ways to the same loss that differ only in flatness: does flatness cause anything?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.drift.clock import Pace
from isoloss.experiments.drift.departures import ARM, PART, START, Departure
from isoloss.experiments.drift.panels import ACCURACY, LOSS, TRACE
from isoloss.experiments.drift.runs import plain
from isoloss.panels import Axis, Colour, Dots, Panel, Table
from isoloss.pretraining.flatness_regularised import FlatnessRegularised, Sharpened
from isoloss.pretraining.sgd import SGD
from isoloss.pretraining.update_rule import UpdateRuleSettings
from isoloss.results.verdict import above, below

STANDARDISED = "standardised_accuracy"
EXAMPLES = (100, 1000)
SETS_APART = "none: the paper compares checkpoints, and does not set flatness itself"
BY_WAY = Colour("pace", "way on")


@dataclass(frozen=True)
class Interventions:
    """Four ways to continue from the last checkpoints of the model of one `width`, with equally many steps.

    SGD at `pace` until its time is `time`; the same with `quieter` times the batch, and hence hardly any
    noise; and, with `regularised_batch` sentences, the flatness regulariser and `sharpened`, the same with
    its sign flipped. The regulariser's noise is √(η / 2B), with η and B of the pace: thus the penalty on the
    trace, σ²/2, equals that of SGD's own noise, η / 4B. The sharpened way must have a lower rate: at the
    pace's own, SGD leaves minima that sharp.
    """

    width: int
    seeds: tuple[int, ...]
    pace: Pace
    time: float
    regularised_batch: int
    sharpened: Sharpened
    quieter: int = 32

    @property
    def noise(self) -> float:
        """σ of the regulariser's noise on weights."""
        return math.sqrt(self.pace.learning_rate / (2 * self.pace.batch_size))

    @property
    def departures(self) -> tuple[Departure, ...]:
        """SGD with noise, without, the regulariser, and its opposite."""
        rate, batch = self.pace.learning_rate, self.pace.batch_size
        sgd = SGD(rate, warm_up_share=0.0)
        return (
            self._way("SGD with noise", sgd, batch),
            self._way("SGD without noise", sgd, self.quieter * batch),
            self._way("flattened", FlatnessRegularised(self.noise, sgd), self.regularised_batch),
            self._way("sharpened", self.sharpened, self.regularised_batch),
        )

    def _way(self, name: str, rule: UpdateRuleSettings, batch: int) -> Departure:
        own = plain(Pace(self.pace.learning_rate, batch), (self.pace.step_at(self.time),))
        return replace(own, part=ARM, rule=rule, arm=name, key=name.replace(" ", "-").lower())


def points_per_doubling(runs: Sequence[pl.DataFrame], of: str = "accuracy") -> float:
    """Change of the column in percent points as the trace doubles, among the ways from the same start.

    The least-squares slope over log2 trace, with an intercept for every start; nan if no traces differ.
    """
    table = _ways(runs, of, "trace")
    if table.is_empty():
        return math.nan
    apart = [pl.col("trace").log(2), 100 * pl.col(of)]
    x, y = (table.select(each - each.mean().over("seed")).to_series().to_numpy() for each in apart)
    squares = float(x @ x)
    return float(x @ y) / squares if squares > 0 else math.nan


def range_of_losses(runs: Sequence[pl.DataFrame]) -> float:
    """Largest minus smallest of the ways' mean losses, over their mean; nan for fewer than two ways."""
    means = _means(runs, "loss")
    return float(np.ptp(means) / means.mean()) if len(means) > 1 else math.nan


def doublings_apart(runs: Sequence[pl.DataFrame]) -> float:
    """log2 of the sharpest way's mean trace over the flattest's; nan for fewer than two ways."""
    means = _means(runs, "trace")
    return float(np.log2(means.max() / means.min())) if len(means) > 1 else math.nan


def _ways(runs: Sequence[pl.DataFrame], *columns: str) -> pl.DataFrame:
    own = [run for run in runs if {PART, *columns} <= {*run.columns} and run[PART][0] == ARM]
    return pl.concat(own, how="diagonal_relaxed") if own else pl.DataFrame()


def _means(runs: Sequence[pl.DataFrame], column: str) -> np.ndarray:
    table = _ways(runs, column)
    if table.is_empty():
        return np.array([])
    return table.group_by("pace").agg(pl.col(column).mean())[column].to_numpy()


def _causes(name: str, of: str, what: str) -> Claim:
    return Claim(
        name=name,
        sentence=f"At one loss, {what} falls by a point as the trace is made to double.",
        paper=SETS_APART,
        measure=(
            f"least-squares slope of {what} over log2 trace, among the ways from one start; an intercept for "
            "every start"
        ),
        unit="percent points a doubling",
        claimed=below(-1.0),
        statistic=partial(points_per_doubling, of=of),
        reason="half of what the paper's runs gain as their trace halves",
    )


CLAIMS = (
    Claim(
        name="one-loss",
        sentence="The four ways come to one loss.",
        paper=SETS_APART,
        measure="largest minus smallest of the ways' mean exact losses, over their mean",
        unit="",
        claimed=below(0.005),
        statistic=range_of_losses,
        kind="premise",
        reason="four times the window of the paper's losses",
    ),
    Claim(
        name="flatness-differs",
        sentence="They come to minima whose flatness differs by a factor of two.",
        paper=SETS_APART,
        measure="log2 of the sharpest way's mean trace over the flattest's",
        unit="doublings",
        claimed=above(1.0),
        statistic=doublings_apart,
        kind="premise",
        reason="a slope over flatness needs some of it",
    ),
    _causes("flatter-is-better", "accuracy", "the probe's accuracy"),
    _causes("flatter-is-better-standardised", STANDARDISED, "the standardised probe's accuracy"),
    _causes("flatter-needs-fewer", f"accuracy_{EXAMPLES[0]}", f"accuracy from {EXAMPLES[0]} examples"),
)
"""The bounds were fixed on runs with pilot seeds."""


def intervention_panels(table: pl.DataFrame) -> tuple[Panel, ...]:
    """Accuracy over the trace, one dot per start and way, for each probe; and all numbers."""
    if table.is_empty() or PART not in table.columns:
        return ()
    rows = table.filter(pl.col(PART).is_in([START, ARM]))
    few = [Axis(f"accuracy_{n}", f"accuracy from {n:,} examples", f"accuracy_{n}_error") for n in EXAMPLES]
    standardised = Axis(STANDARDISED, "standardised probe's accuracy", f"{STANDARDISED}_error")
    known = [axis for axis in (ACCURACY, standardised, *few) if axis.column in rows.columns]
    return (
        Panel(
            "accuracy-over-trace",
            "Does accuracy follow flatness when nothing else changes?",
            "One dot per start and way, all at about the same loss; bars are one standard error over "
            "sentences.",
            (
                *(Dots(TRACE, axis, BY_WAY) for axis in known),
                Table((Axis("pace", "way"), Axis("seed", "seed"), TRACE, LOSS, *known)),
            ),
            rows,
        ),
    )
