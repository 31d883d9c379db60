"""A statistic of several languages' runs: the worst over languages, but for some."""

import math
from dataclasses import dataclass

import polars as pl

from isoloss.experiments.statistics.seed_bootstrap import Frames, Statistic, statistic_of


def by_language(runs: Frames) -> dict[str, list[pl.DataFrame]]:
    """The runs on each language, by its name in their column `language`; without those that name none."""
    found: dict[str, list[pl.DataFrame]] = {}
    for run in runs:
        if "language" in run.columns:
            found.setdefault(run["language"][0], []).append(run)
    return found


@dataclass(frozen=True)
class WorstBut:
    """The worst value over languages of the `statistic`, once the `left_out` worst are left out.

    That it is in a region says that the statistic is so on all languages but these. The worst is the largest,
    or, unless `largest`, the smallest; an undefined value is worse than any. It is nan if it is itself
    undefined, and where no more languages are there than are left out.

    >>> runs = [pl.DataFrame({"language": [str(fall)], "fall": [fall]}) for fall in (1.0, 4.0, 9.0)]
    >>> worst = WorstBut(lambda own: own[0]["fall"][0], left_out=1, largest=False)
    >>> worst(runs), WorstBut(worst.statistic, left_out=0, largest=True)(runs)
    (4.0, 9.0)
    """

    statistic: Statistic
    left_out: int
    largest: bool

    def __call__(self, runs: Frames) -> float:
        sign = -1.0 if self.largest else 1.0
        values = [sign * statistic_of(self.statistic, *own) for own in by_language(runs).values()]
        ordered = sorted(-math.inf if math.isnan(value) else value for value in values)
        value = ordered[self.left_out] if len(ordered) > self.left_out else math.nan
        return sign * value if math.isfinite(value) else math.nan
