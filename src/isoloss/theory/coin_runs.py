"""SGD on one coin beside Theorem 3.3's closed form: errors at falling learning rates."""

from dataclasses import dataclass
from math import log

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.progress import Progress, silent
from isoloss.theory.coin_flow import BiasedCoin
from isoloss.theory.sgd_paths import SGDSettings, sgd_paths
from isoloss.theory.softmax_model import Coin
from isoloss.theory.trace_flow import COEFFICIENT


@dataclass(frozen=True)
class CoinRuns:
    """R runs of one learning rate and batch size at the times `times`, from u² - v² = `difference`.

    `differences` are the runs' u² - v², `ends` where they are at the last time.
    """

    coin: BiasedCoin
    difference: float
    settings: SGDSettings
    times: tuple[float, ...]
    differences: Float[Tensor, "n R"]
    ends: Float[Tensor, "R 2"]

    @property
    def rate(self) -> tuple[float, float]:
        """Rate of decay of E[u² - v²] per unit of t over p(1-p)/B, and its standard error (delta method)."""
        last = self.differences[-1]
        mean, error = float(last.mean()), float(last.std()) / len(last) ** 0.5
        if mean <= 0:
            return float("nan"), float("inf")
        unit = self.times[-1] * self.coin.decay_rate(self.settings.batch_size)
        return log(self.difference / mean) / unit, error / mean / unit

    def error_of_difference(self, coefficient: float = COEFFICIENT) -> tuple[float, float]:
        """Root mean square of u² - v² less its limit, and its standard error.

        A run multiplies u² - v² by 1 - η²g² at each of t/η² steps: its logarithm's deviation is
        η √(t Var g²), so that the order in η is 1.
        """
        limit = self._limit(coefficient)
        return _root_mean(self.differences[-1] - (limit[0] ** 2 - limit[1] ** 2))

    def error_of_parameters(self, coefficient: float = COEFFICIENT) -> tuple[float, float]:
        """Root mean square distance of (u, v) from its limit, and its standard error.

        Across the curve a run is an Ornstein-Uhlenbeck process of variance η / 2B, so that the order is 1/2.
        """
        return _root_mean((self.ends - self._limit(coefficient)).norm(dim=1))

    def _limit(self, coefficient: float) -> Float[Tensor, " 2"]:
        return self.coin.flow(self.difference, self.times[-1], self.settings.batch_size, coefficient)


def coin_runs(
    coin: BiasedCoin,
    difference: float,
    settings: SGDSettings,
    times: tuple[float, ...],
    progress: Progress = silent,
) -> CoinRuns:
    """Run SGD from the minimiser with u² - v² = `difference`, observed at each of the rising `times`."""
    start = coin.minimiser(difference)
    observed, at = [], start[None]
    for at in sgd_paths(Coin(), coin.laws, start, settings, times, progress):
        observed.append(at[:, 0] ** 2 - at[:, 1] ** 2)
    return CoinRuns(coin, difference, settings, times, torch.stack(observed), at)


def _root_mean(errors: Float[Tensor, " R"]) -> tuple[float, float]:
    squares = errors.square()
    root = float(squares.mean().sqrt())
    return root, float(squares.std()) / len(squares) ** 0.5 / (2 * root)
