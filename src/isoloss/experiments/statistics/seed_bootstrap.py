"""Statistics of runs with their error over seeds: all runs of one seed are taken, or left out, together."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from isoloss.errors import BadInput
from isoloss.experiments.statistics.cluster_bootstrap import ClusterEstimate, Resamples, cluster_estimate

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


@dataclass(frozen=True)
class SeedBootstrap:
    """Runs, and their resamples by seeds; made once for all the statistics of one figure.

    Runs of one seed share batches and, where their models have one shape, the first weights, so that they are
    not independent: a cluster. `runs` are all frames as handed over, `seeds` and `seeded` count the clusters
    and the frames in them. A frame whose seed is null, a reference, is in every resample.
    """

    runs: Frames
    seeds: int
    seeded: int
    resamples: Resamples
    samples: tuple[Frames, ...]

    @staticmethod
    def of(runs: Frames, seed: int = 0) -> "SeedBootstrap":
        """Each frame has one value in its column `seed`. Raises BadInput for any other.

        `seed` is that of the drawing, where there are more resamples than are gone through.
        """
        clusters: dict[int | None, list[pl.DataFrame]] = {}
        for run in runs:
            clusters.setdefault(_seed_of(run), []).append(run)
        references = clusters.pop(None, [])
        grouped, seeded = list(clusters.values()), sum(map(len, clusters.values()))
        if len(grouped) < 2:
            nothing = Resamples(np.zeros((0, len(grouped)), dtype=np.int64), np.zeros(0))
            return SeedBootstrap(runs, len(grouped), seeded, nothing, ())
        resamples = Resamples.of(len(grouped), seed)
        copies = _Copies(grouped, unused=max(seed for seed in clusters if seed is not None) + 1)
        samples = tuple([*copies.taken(counts), *references] for counts in resamples.counts.tolist())
        return SeedBootstrap(runs, len(grouped), seeded, resamples, samples)

    def estimate(self, statistic: Statistic) -> ClusterEstimate:
        """The statistic of all runs with its error over seeds; nan where there is no seed at all.

        >>> runs = [pl.DataFrame({"seed": seed, "trace": [float(seed)]}) for seed in (1, 2, 3)]
        >>> found = SeedBootstrap.of(runs).estimate(lambda runs: float(pl.concat(runs)["trace"].mean()))
        >>> round(found.value, 3), round(found.standard_error, 3), found.clusters
        (2.0, 0.577, 3)
        """
        if not self.seeds:
            return ClusterEstimate(float("nan"), float("nan"), 0)
        draws = np.array([statistic(sample) for sample in self.samples], dtype=np.float64)
        return cluster_estimate(float(statistic(self.runs)), draws, self.resamples)


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
