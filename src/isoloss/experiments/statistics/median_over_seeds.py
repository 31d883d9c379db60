"""The median over seeds of a statistic of each seed's runs alone."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from isoloss.experiments.statistics.seed_bootstrap import FrameKey, Frames, Statistic


@dataclass(frozen=True)
class MedianOverSeeds:
    """Median over seeds of the `statistic` of each seed's runs, over those for which it is defined.

    One run that breaks away, however far, moves it no further than to the next seed's value. It is nan if the
    statistic is defined for no seed.

    >>> import polars as pl
    >>> runs = [pl.DataFrame({"seed": [seed], "trace": [4.0 * seed**seed]}) for seed in (1, 2, 3)]
    >>> MedianOverSeeds(lambda runs: runs[0]["trace"][0])(runs)
    16.0
    """

    statistic: Statistic

    def __call__(self, runs: Frames) -> float:
        """See the class."""
        by_seed: dict[object, list[FrameKey]] = {}
        for run in runs:
            seed = run["seed"][0] if "seed" in run.columns else None
            by_seed.setdefault(seed, []).append(FrameKey(run))
        found = [_of_one_seed(self.statistic, tuple(own)) for own in by_seed.values()]
        known = [value for value in found if math.isfinite(value)]
        return float(np.median(known)) if known else math.nan


@lru_cache(maxsize=4096)
def _of_one_seed(statistic: Statistic, runs: tuple[FrameKey, ...]) -> float:
    return statistic([run.frame for run in runs])
