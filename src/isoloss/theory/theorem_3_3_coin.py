"""Theorem 3.3 on one coin, p = σ(Σ u_j v_j), a model with a curve of minimisers: its limit in closed form."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.panels import Axis, Colour, Landscape, Panel
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate
from isoloss.seeds import derived_seed
from isoloss.theory.finding import Entry, Finding, Statement, estimated, stated
from isoloss.theory.minimisers import BiasedCoin, coin_logits
from isoloss.theory.optimiser_paths import (
    SGDSettings,
    fitted_order,
    log_decay,
    mean_rows,
    panel_of_paths,
    root_mean_square,
    sgd_paths,
    weighted_line,
)
from isoloss.theory.theorem_3_3_factors import SOURCE

CELLS = 80
POINTS = 200


@dataclass(frozen=True)
class CoinRuns:
    """R runs with one learning rate and batch size at the times `times`, from u² - v² = `difference`.

    `differences` are the runs' u² - v², `ends` their points at the last time.
    """

    coin: BiasedCoin
    difference: float
    settings: SGDSettings
    times: tuple[float, ...]
    differences: Float[Tensor, "n R"]
    ends: Float[Tensor, "R 2"]

    @property
    def rate(self) -> Estimate:
        """Rate of decay of E[u² - v²] per unit of t over p(1-p)/B."""
        unit = self.times[-1] * self.coin.decay_rate(self.settings.batch_size)
        return log_decay(self.difference, self.differences[-1], unit)

    @property
    def error_of_difference(self) -> Estimate:
        """Root mean square of u² - v² minus its limit.

        A run multiplies u² - v² by 1 - η²g² at each of t/η² steps: the standard deviation of its logarithm is
        η √(t Var g²), so that the order in η is 1.
        """
        limit = self._limit
        return root_mean_square(self.differences[-1] - (limit[0] ** 2 - limit[1] ** 2))

    @property
    def error_of_parameters(self) -> Estimate:
        """Root mean square distance of (u, v) from its limit.

        Across the curve a run is an Ornstein-Uhlenbeck process of variance η / 2B, so that the order is 1/2.
        """
        return root_mean_square((self.ends - self._limit).norm(dim=1))

    @property
    def _limit(self) -> Float[Tensor, " 2"]:
        return self.coin.flow(self.difference, self.times[-1], self.settings.batch_size)


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
    for at in sgd_paths(coin.minimisers, start, settings, times, progress):
        observed.append(at[:, 0] ** 2 - at[:, 1] ** 2)
    return CoinRuns(coin, difference, settings, times, torch.stack(observed), at)


@dataclass(frozen=True)
class CoinSettings:
    """Runs start at u² - v² = `difference` and last until it should have fallen by a factor exp(`decays`).

    `rate_tolerance` is about (η p(1-p)(u² + v²))² at the largest η, the error of a line in η.
    `order_tolerance` is below a quarter, half the distance from one possible order, 1/2, to the next, 1.
    """

    heads: float
    difference: float
    learning_rates: tuple[float, ...]
    batch_sizes: tuple[int, ...]
    paths: int
    decays: float
    points: int
    seed: int
    rate_tolerance: float = 0.03
    order_tolerance: float = 0.1


FULL = CoinSettings(0.7, 3.0, (0.2, 0.14, 0.1, 0.07), (1, 4), paths=2000, decays=1.0, points=10, seed=1)
SMOKE = CoinSettings(
    0.7, 3.0, (0.2, 0.1, 0.06), (1,), paths=1000, decays=1.0, points=3, seed=1, order_tolerance=0.2
)


def theorem_3_3_coin(settings: CoinSettings, progress: Progress = silent) -> Statement:
    """Thousands of runs of SGD for each learning rate and batch size, against the closed form."""
    coin = BiasedCoin(settings.heads)
    runs = []
    for batch_size in settings.batch_sizes:
        end = settings.decays / coin.decay_rate(batch_size)
        times = tuple(end * point / settings.points for point in range(settings.points + 1))
        for number, rate in enumerate(settings.learning_rates):
            seed = derived_seed(settings.seed, f"SGD, B = {batch_size}", number)
            sgd = SGDSettings(rate, batch_size, settings.paths, seed)
            runs.append(coin_runs(coin, settings.difference, sgd, times, progress))
    picture = SGDSettings(settings.learning_rates[-1], 1, 1, settings.seed)
    return Statement(
        name="theorem-3.3-coin",
        title="Does SGD at an exact fit flatten? One coin, in closed form",
        text=(
            "A coin is predicted by σ(uv), whose best fits are the curve uv = logit p. Runs of SGD from one "
            "point of the curve are compared with equation (1), which says that E[u² - v²] decays as "
            "exp(-p(1-p) t/B) in t = kη². It would fail with another constant or another rate: the decay of "
            "the runs is measured and extrapolated to η = 0, and each error must fall with η at its own "
            "order."
        ),
        findings=coin_findings(runs, settings.rate_tolerance, settings.order_tolerance),
        panels=(_decay_panel(runs), coin_landscape(coin, settings.difference, picture)),
        settings=stated(settings),
    )


def coin_findings(
    runs: Sequence[CoinRuns], rate_tolerance: float, order_tolerance: float
) -> tuple[Finding, ...]:
    """For each batch size, the decay rate as η → 0 and two orders of convergence."""
    findings: list[Finding] = []
    for batch_size in sorted({run.settings.batch_size for run in runs}):
        alike = [run for run in runs if run.settings.batch_size == batch_size]
        rates = [run.settings.learning_rate for run in alike]
        of_batch, batch = f"Batch size {batch_size}", f"B = {batch_size}"
        limit = weighted_line(rates, [run.rate for run in alike]).intercept
        name, unit = f"decay rate, {batch}", "p(1-p)/B"
        sentence = f"{of_batch}: as η falls to 0, E[u² - v²] decays at the rate {unit} per unit of t = kη²."
        findings.append(
            estimated(name, sentence, SOURCE, limit, "equal to", 1.0, unit=unit, tolerance=rate_tolerance)
        )
        of_difference = [run.error_of_difference for run in alike]
        of_parameters = [run.error_of_parameters for run in alike]
        source = f"{SOURCE}: convergence as η → 0; the order is this coin's"
        for what, order, errors in (("u² - v²", 1.0, of_difference), ("(u, v)", 0.5, of_parameters)):
            name, slope = f"order of {what}, {batch}", fitted_order(rates, errors)
            sentence = f"{of_batch}: the distance of {what} from its limit falls as η^{order:g} (exponent)."
            findings.append(
                estimated(name, sentence, source, slope, "equal to", order, tolerance=order_tolerance)
            )
    return tuple(findings)


def _decay_panel(runs: Sequence[CoinRuns]) -> Panel:
    rows = []
    for run in runs:
        batch_size = run.settings.batch_size
        name = f"SGD, η = {run.settings.learning_rate:g}"
        times = [time / batch_size for time in run.times]
        rows += mean_rows(times, run.differences, name, f"{name}, B = {batch_size}")
    first, flow = runs[0], "equation (1)"
    for time in first.times:
        u, v = first.coin.flow(first.difference, time, first.settings.batch_size).tolist()
        rows.append((time / first.settings.batch_size, u**2 - v**2, 0.0, flow, flow, True))
    return panel_of_paths(
        "coin-decay",
        "SGD's mean and the closed form",
        f"Mean of u² - v² over {first.settings.paths:,} runs with its standard error, against t / B = "
        "kη² / B: one curve for all batch sizes and, as η falls, for all learning rates.",
        Axis("t", "t / B"),
        Axis("difference", "mean of u² - v²", "error", logarithmic=True),
        rows,
    )


def coin_landscape(coin: BiasedCoin, difference: float, settings: SGDSettings) -> Panel:
    """A heat map of L(u, v) - min L; over it Γ, equation (1), one run of SGD, and the flattest point.

    Both paths start at the minimiser with u² - v² = `difference` > 0 and last for four times the decay time
    of u² - v². Raises BadInput unless the coin prefers heads, where both coordinates are positive.
    """
    if coin.heads <= 0.5:
        raise BadInput(f"the picture needs a coin that prefers heads, not one of {coin.heads:g}")
    end = 4 / coin.decay_rate(settings.batch_size)
    times = [end * point / POINTS for point in range(POINTS + 1)]
    start = coin.minimiser(difference)
    runs = sgd_paths(coin.minimisers, start, settings, times)
    run = torch.stack([at[0] for at in runs])
    reach = 1.15 * max(float(start.max()), float(run.max()))
    u = torch.linspace(coin.logit / reach, reach, POINTS, dtype=torch.float64)
    lines = {
        "minimisers: uv = logit p": torch.stack([u, coin.logit / u], dim=1),
        "equation (1)": torch.stack([coin.flow(difference, t, settings.batch_size) for t in times]),
        f"one run of SGD, η = {settings.learning_rate:g}": run,
        "flattest minimiser: u = v": torch.full((1, 2), coin.logit**0.5, dtype=torch.float64),
    }
    chart = Landscape(
        Axis("u", "u"), Axis("v", "v"), Axis("height", "loss - minimum (nats)"), Colour("series", "path")
    )
    return Panel(
        "coin-landscape",
        "Which minimum does implicit bias lead to? (Figure 11, left), computed",
        f"The loss of a coin, p = {coin.heads:g}, over (u, v), minus its minimum. Once on the curve of "
        "minimisers, SGD drifts along it to the flattest one, as the flow of the trace does.",
        (chart,),
        pl.concat([_grid(coin, reach), *(_line(name, path) for name, path in lines.items())]),
    )


def _grid(coin: BiasedCoin, reach: float) -> pl.DataFrame:
    centres = (np.arange(CELLS) + 0.5) * reach / CELLS
    u, v = (side.ravel() for side in np.meshgrid(centres, centres))
    logits = torch.vmap(coin_logits)(torch.from_numpy(np.stack([u, v], axis=1)))
    height = torch.vmap(coin.distributions.kl)(logits)
    return pl.DataFrame({"u": u, "v": v, "height": height.numpy(), "series": ["loss"] * len(u)})


def _line(name: str, path: Float[Tensor, "n 2"]) -> pl.DataFrame:
    heights = pl.Series([None] * len(path), dtype=pl.Float64)
    return pl.DataFrame(
        {"u": path[:, 0].numpy(), "v": path[:, 1].numpy(), "height": heights, "series": [name] * len(path)}
    )


ENTRY = Entry("theorem-3.3-coin", theorem_3_3_coin, FULL, SMOKE, seconds=20)
