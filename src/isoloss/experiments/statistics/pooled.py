"""A statistic of all of a seed's checkpoints that share one loss, as the paper pools its models."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl

from isoloss.experiments.statistics.seed_bootstrap import FrameKey, Frames, Statistic

FEWEST = 4
"""Checkpoints of a seed below which nothing is said of it."""


@dataclass(frozen=True)
class PooledInWindow:
    """Mean over seeds of a statistic of the seed's checkpoints within `window` of its lowest loss.

    Those of all its runs together, whatever their sizes. A seed with fewer than `FEWEST` of them, or for
    which the statistic is undefined, is left out; nan if none is left.
    """

    statistic: Statistic
    window: float

    def __call__(self, runs: Frames) -> float:
        """See the class."""
        by_seed: dict[int, list[FrameKey]] = {}
        for run in runs:
            by_seed.setdefault(run["seed"][0], []).append(FrameKey(run))
        found = np.array([_of_seed(self, *runs_of_seed) for runs_of_seed in by_seed.values()])
        defined = found[np.isfinite(found)]
        return float(defined.mean()) if len(defined) else float("nan")


@lru_cache(maxsize=4096)
def _of_seed(asked: PooledInWindow, *runs: FrameKey) -> float:
    frames = [run.frame for run in runs]
    lowest = min(float(frame["loss"].to_numpy().min()) for frame in frames)
    near = [frame.filter(pl.col("loss") <= (1 + asked.window) * lowest) for frame in frames]
    return asked.statistic(near) if sum(map(len, near)) >= FEWEST else float("nan")
