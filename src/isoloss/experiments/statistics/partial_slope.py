"""The effect of flatness at a given knowledge: accuracy regressed on the trace and on KL, in doublings."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from isoloss.experiments.statistics.rank_correlation import complete_rows
from isoloss.experiments.statistics.seed_bootstrap import FrameKey, Frames


@dataclass(frozen=True)
class PartialSlope:
    """Percentage points of accuracy for a doubling of `of`, by default the trace, at one KL.

    Accuracy is regressed by least squares on the binary logarithms of it and of KL(distribution || model),
    with an intercept for each value of `within`: for each seed ("seed"), whose runs are thus compared with
    one another, or for each run ("run"), whose checkpoints are compared only with one another, since traces
    over different parameters have no common zero. Of each of these, only checkpoints whose loss is within
    `window` of their lowest count, all for None. It is nan if `of` does not vary apart from KL.

    An error in KL makes it look as if the rest were explained by the trace: both are measured to 2 %.
    """

    within: str = "run"
    of: str = "trace"
    outcome: str = "accuracy"
    window: float | None = None

    def __call__(self, runs: Frames) -> float:
        """See the class."""
        groups: dict[object, list[FrameKey]] = {}
        for run in runs:
            groups.setdefault(_group(self.within, FrameKey(run)), []).append(FrameKey(run))
        products = np.zeros((3, 3))
        for group in groups.values():
            products += _products(self, *group)
        given, outcome = products[:2, :2], products[:2, 2]
        # Where one is a line over the other in each group, only rounding tells the two apart.
        if not np.linalg.det(given) > 1e-9 * given[0, 0] * given[1, 1]:
            return float("nan")
        return float(np.linalg.solve(given, outcome)[0])


@lru_cache(maxsize=4096)
def _group(within: str, run: FrameKey) -> object:
    return run.frame[within][0]


@lru_cache(maxsize=4096)
def _products(asked: PartialSlope, *runs: FrameKey) -> Float[np.ndarray, "3 3"]:
    """Sums of squares and products of log2(of), log2(KL) and accuracy about their means in the group."""
    columns = (asked.of, "kl", asked.outcome, "loss")
    of, kl, outcome, loss = complete_rows([run.frame for run in runs], columns)
    if asked.window is not None and len(loss):
        near = loss <= (1 + asked.window) * loss.min()
        of, kl, outcome = of[near], kl[near], outcome[near]
    if not len(kl):
        return np.zeros((3, 3))
    rows = np.stack([np.log2(of), np.log2(kl), 100 * outcome])
    rows -= rows.mean(axis=1, keepdims=True)
    products: Float[np.ndarray, "3 3"] = rows @ rows.T
    return products
