"""Statistics of runs with errors over seeds: all runs of a seed are resampled together."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from isoloss.errors import BadInput
from isoloss.experiments.statistics.cluster_bootstrap import (
    ROUNDING,
    ClusterEstimate,
    Resamples,
    cluster_estimate,
)

Frames = Sequence[pl.DataFrame]
"""The runs' tables of checkpoints, one frame a run."""

Statistic = Callable[[Frames], float]
"""From the runs' frames to one number, which may be nan where they do not settle it."""


class FrameKey:
    """A run's frame as a cache's key, by identity: resamples by seeds hold the same frames again."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame = frame

    def __hash__(self) -> int:
        return id(self.frame)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrameKey) and self.frame is other.frame


@dataclass(frozen=True, eq=False)
class SeedBootstrap:
    """Runs, and their resamples by seeds; made once for all the statistics of one figure.

    Runs of the same seed share batches and, if their models have the same shape, the initial weights; they
    are not independent and form a cluster. `runs` are all frames as given, `clusters` those of each seed. A
    frame whose seed is null, a reference, is in every resample; `seed` is that of the random resampling.
    """

    runs: Frames
    clusters: tuple[Frames, ...]
    seed: int
    _resampled: dict[tuple[int, ...], tuple[Resamples, tuple[Frames, ...]]]

    @staticmethod
    def of(runs: Frames, seed: int = 0) -> "SeedBootstrap":
        """Each frame has one value in its column `seed`. Raises BadInput for any other.

        `seed` is that of the random resampling, used if there are too many resamples to enumerate.
        """
        clusters: dict[int | None, list[pl.DataFrame]] = {}
        for run in runs:
            clusters.setdefault(_seed_of(run), []).append(run)
        clusters.pop(None, [])
        return SeedBootstrap(runs, tuple(clusters.values()), seed, {})

    @property
    def seeds(self) -> int:
        """How many clusters there are."""
        return len(self.clusters)

    @property
    def seeded(self) -> int:
        """How many frames are in the clusters."""
        return sum(map(len, self.clusters))

    def estimate(self, statistic: Statistic) -> ClusterEstimate:
        """The statistic of all runs with its error over the seeds that contribute to it.

        A seed does not contribute if adding it to all other seeds, or to fewer of them, never changes the
        statistic, e.g. a seed without a pair in a mean over pairs. Such seeds are excluded from resamples,
        degrees of freedom and `clusters`. The standard error is nan if fewer than two seeds contribute, or if
        leaving one out makes the statistic undefined.

        >>> runs = [pl.DataFrame({"seed": seed, "trace": [float(seed)]}) for seed in (1, 2, 3)]
        >>> found = SeedBootstrap.of(runs).estimate(lambda runs: float(pl.concat(runs)["trace"].mean()))
        >>> round(found.value, 3), round(found.standard_error, 3), found.clusters
        (2.0, 0.577, 3)
        """
        value = float(statistic(self.runs)) if self.clusters else math.nan
        if self.seeds < 2 or not math.isfinite(value):
            return ClusterEstimate(value, math.nan, self.seeds)
        everyone = range(self.seeds)
        without = [float(statistic(self._of([*everyone[:own], *everyone[own + 1 :]]))) for own in everyone]
        contributing = tuple(
            own for own in everyone if _differ(value, without[own]) or self._changes_fewer(statistic, own)
        )
        if len(contributing) < 2 or not np.isfinite([without[own] for own in contributing]).all():
            return ClusterEstimate(value, math.nan, len(contributing))
        resamples, samples = self._resamples_of(contributing)
        draws = np.array([statistic(sample) for sample in samples], dtype=np.float64)
        return cluster_estimate(value, draws, resamples)

    def _changes_fewer(self, statistic: Statistic, own: int) -> bool:
        """Whether adding the cluster to the first 0, 1, 2, ... of the others changes the statistic.

        This detects clusters with equal values, the removal of any one of which changes nothing.
        """
        others = [other for other in range(self.seeds) if other != own]
        for fewer in range(self.seeds - 1):
            beside = others[:fewer]
            alone = statistic(self._of(beside)) if beside else math.nan
            if _differ(alone, statistic(self._of([*beside, own]))):
                return True
        return False

    def _of(self, clusters: Sequence[int]) -> Frames:
        """The frames of these clusters, and the references, in the order of all frames."""
        others = set(range(self.seeds)).difference(clusters)
        left_out = {id(run) for own in others for run in self.clusters[own]}
        return [run for run in self.runs if id(run) not in left_out]

    def _resamples_of(self, clusters: tuple[int, ...]) -> tuple[Resamples, tuple[Frames, ...]]:
        """Resamples of these clusters alone, and the frames of each, references last."""
        if clusters not in self._resampled:
            references = self._of([])
            resamples = Resamples.of(len(clusters), self.seed)
            copies = _Copies([self.clusters[own] for own in clusters], self._unused_seed)
            samples = ((*copies.taken(counts), *references) for counts in resamples.counts.tolist())
            self._resampled[clusters] = resamples, tuple(samples)
        return self._resampled[clusters]

    @property
    def _unused_seed(self) -> int:
        return max(int(runs[0]["seed"][0]) for runs in self.clusters) + 1


def _differ(first: float, second: float) -> bool:
    """Whether the values differ by more than rounding, or only one is defined."""
    if not (math.isfinite(first) and math.isfinite(second)):
        return math.isfinite(first) != math.isfinite(second)
    return abs(first - second) > ROUNDING * max(abs(first), abs(second))


class _Copies:
    """A cluster's frames as often as it is drawn, each time under a seed and run names of its own.

    So a statistic that pairs or groups its rows by seed or by run counts a seed drawn twice as two seeds.
    """

    def __init__(self, clusters: Sequence[Frames], unused: int) -> None:
        self._clusters, self._unused = clusters, unused
        self._made: dict[tuple[int, int], Frames] = {}

    def taken(self, counts: Sequence[int]) -> Iterator[pl.DataFrame]:
        for cluster, count in enumerate(counts):
            for copy in range(count):
                if (cluster, copy) not in self._made:
                    self._made[cluster, copy] = self._copy(cluster, copy) if copy else self._clusters[cluster]
                yield from self._made[cluster, copy]

    def _copy(self, cluster: int, copy: int) -> Frames:
        seed = self._unused + cluster * len(self._clusters) + copy
        renamed = pl.col("^run$") + f", copy {copy}"  # the pattern, since not every table names its runs
        return [
            run.with_columns(pl.lit(seed, run["seed"].dtype).alias("seed"), renamed)
            for run in self._clusters[cluster]
        ]


def _seed_of(run: pl.DataFrame) -> int | None:
    seeds = run["seed"].unique().to_list() if "seed" in run.columns else []
    if len(seeds) != 1:
        raise BadInput(
            f"a run's table must have one seed in its column `seed`, not {seeds or 'none'}; "
            "hand over a table for each run"
        )
    seed: int | None = seeds[0]
    return seed
