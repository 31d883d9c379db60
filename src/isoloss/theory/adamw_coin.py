"""AdamW on one coin, where its drift has a closed form: it leaves the least trace, by its own clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, hypot, log, sqrt

import numpy as np
import torch
from jaxtyping import Float
from scipy.integrate import solve_ivp
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.panels import Axis, Panel
from isoloss.progress import Progress, part_of, silent
from isoloss.results.estimate import sample_mean
from isoloss.seeds import derived_seed
from isoloss.theory.adamw_factors import SOURCE
from isoloss.theory.finding import Entry, Finding, Statement, estimated, stated
from isoloss.theory.minimisers import BiasedCoin, Minimisers
from isoloss.theory.optimiser_paths import (
    Row,
    SGDSettings,
    adamw_paths,
    log_decay,
    mean_rows,
    panel_of_paths,
    weighted_line,
)


@dataclass(frozen=True)
class CopiedCoin:
    """A coin whose factor v is the sum of `copies` parameters: Pr(heads) = σ(u V), V = Σ v_j.

    On uV = logit p the trace is p(1-p)(V² + n u²), least at V = √n u, and Σ √H_ii is √(p(1-p)) (V + n u),
    least at V = n u. If the v_j are equal at the start they stay equal, and D = n u - V obeys, with a second
    moment of 1 - β2 = κα and a = √B σ (n u + V), σ² = p(1-p), the rate at which AdamW returns to the curve,

        dD/dt = -(n / (2 logit p)) D a / (a + κ),   (n u + V)² = D² + 4 n logit p:

    with a slow moment (κ → 0), D decays exponentially, whatever the batch; with a fast one hardly at all,
    since a moment that follows u and V immediately leaves n u - V exactly as it was.
    """

    coin: BiasedCoin
    copies: int

    def __post_init__(self) -> None:
        if self.coin.heads <= 1 / 2 or self.copies < 2:
            raise BadInput(
                "AdamW's coin prefers heads (above 1/2), and its minima differ from the trace's where v has "
                f"two copies or more, not {self.copies} of a coin of {self.coin.heads}"
            )

    def logits(self, parameters: Float[Tensor, " P"]) -> Float[Tensor, "C V"]:
        """Those of tails, always 0, and heads; u comes first, then the v_j."""
        heads = parameters[0] * parameters[1:].sum()
        return torch.stack([torch.zeros_like(heads), heads])[None]

    def difference(self, parameters: Float[Tensor, "*R P"]) -> Float[Tensor, "*R"]:
        """D = n u - V."""
        return self.copies * parameters[..., 0] - parameters[..., 1:].sum(dim=-1)

    @property
    def least_trace(self) -> Float[Tensor, " P"]:
        """The minimiser with the least trace: V = √n u."""
        u = sqrt(self.coin.logit / sqrt(self.copies))
        v = self.coin.logit / u / self.copies
        return torch.tensor([u, *[v] * self.copies], dtype=torch.float64)

    def trace(self, difference: Float[Tensor, "*R"]) -> Float[Tensor, "*R"]:
        """The minimisers with these D."""
        total = (difference.square() + 4 * self.copies * self.coin.logit).sqrt()
        u, large_v = (total + difference) / (2 * self.copies), (total - difference) / 2
        return self.coin.heads * (1 - self.coin.heads) * (large_v**2 + self.copies * u**2)

    def decay(self, time: float, memory: float, batch_size: int) -> float:
        """log(D at the start / D at t = kα²) from `least_trace`, by the equation above."""
        heads, n, logit = self.coin.heads, self.copies, self.coin.logit
        start = log(float(self.difference(self.least_trace)))

        def slope(_time: float, at: np.ndarray) -> list[float]:
            rate = sqrt(batch_size * heads * (1 - heads)) * hypot(exp(at[0]), 2 * sqrt(n * logit))
            return [-n / (2 * logit) * rate / (rate + memory)]

        return start - float(solve_ivp(slope, (0, time), [start], rtol=1e-9, atol=1e-12).y[0, -1])


@dataclass(frozen=True)
class CoinSettings:
    """Runs from the trace's minimum, for `decays` lifetimes of D under a slow second moment, 2 logit p / n.

    `tolerance` is that of a line in α, whose next term is about the square of the slowest moment's lag.
    """

    heads: float
    copies: int
    memories: tuple[float, ...]
    batch_sizes: tuple[int, ...]
    learning_rates: tuple[float, ...]
    paths: int
    decays: float
    seed: int
    points: int = 4
    tolerance: float = 0.05


FULL = CoinSettings(0.6, 4, (0.5, 1.0, 3.0), (1, 4), (0.02, 0.01, 0.005), paths=400, decays=1.0, seed=1)
SMOKE = CoinSettings(
    0.6, 4, (1.0,), (1, 4), (0.04, 0.02), paths=1500, decays=0.5, seed=1, points=1, tolerance=0.15
)


@dataclass(frozen=True)
class CoinRuns:
    """D of R runs at the times t, for one memory, batch and learning rate, from `start`."""

    memory: float
    samples: SGDSettings
    times: tuple[float, ...]
    differences: Float[Tensor, "n R"]


def adamw_coin(settings: CoinSettings, progress: Progress = silent) -> Statement:
    """Hundreds of runs of AdamW for each memory, batch and learning rate, against the closed form."""
    model = CopiedCoin(BiasedCoin(settings.heads), settings.copies)
    minimisers = Minimisers(model.logits, model.coin.distributions)
    end = settings.decays * 2 * model.coin.logit / settings.copies
    times = tuple(end * point / settings.points for point in range(settings.points + 1))
    planned = [
        (memory, SGDSettings(rate, batch, settings.paths, derived_seed(settings.seed, "AdamW", number)))
        for memory in settings.memories
        for batch in settings.batch_sizes
        for number, rate in enumerate(settings.learning_rates)
    ]
    runs = []
    for number, (memory, samples) in enumerate(planned):
        part = part_of(progress, number, len(planned))
        found = adamw_paths(minimisers, model.least_trace, samples, memory, times, part)
        runs.append(CoinRuns(memory, samples, times, torch.stack([model.difference(at) for at in found])))
    return Statement(
        name="adamw-coin",
        title="Does AdamW at an exact fit stay at the flattest point? One coin, in closed form",
        text=(
            f"A coin is predicted by σ(uV), where V is a sum of {settings.copies} parameters. Runs of AdamW "
            "start at the best fit of least trace, where equation (1) would hold them. The derivation says "
            "that they leave it for the least Σ √H_ii. Their clock is α²k, independent of the batch, as long "
            "as the second moment's memory is longer than the time AdamW takes to return to an exact fit; "
            "otherwise the derivation says by how much they are slower. It would fail if the trace did "
            "not change, or changed at another rate or by another clock. What equation (1) says of SGD does "
            "not hold for AdamW: AdamW does not seek the least trace."
        ),
        findings=coin_findings(model, runs, settings.tolerance),
        panels=(_coin_panel(model, runs),),
        settings=stated(settings),
    )


def coin_findings(model: CopiedCoin, runs: Sequence[CoinRuns], tolerance: float) -> tuple[Finding, ...]:
    """D's decay as α → 0 for each memory and batch, and the trace's rise with the slowest second moment."""
    start, findings = float(model.difference(model.least_trace)), []
    for memory, batch in sorted({(run.memory, run.samples.batch_size) for run in runs}):
        alike = [run for run in runs if (run.memory, run.samples.batch_size) == (memory, batch)]
        rates, time = [run.samples.learning_rate for run in alike], alike[0].times[-1]
        slow = time * model.copies / (2 * model.coin.logit)
        decays = [log_decay(start, run.differences[-1], slow) for run in alike]
        name, unit = f"decay, memory {memory:g}, B = {batch}", "of a slow second moment's"
        sentence = (
            f"Batch size {batch}, 1 - β2 = {memory:g} α: as α falls to 0, log(n u - V) falls at the "
            "predicted rate."
        )
        limit, rate = weighted_line(rates, decays).intercept, model.decay(time, memory, batch) / slow
        findings.append(
            estimated(name, sentence, SOURCE, limit, "equal to", rate, unit=unit, tolerance=tolerance)
        )
    return (*findings, _rise_of_trace(model, runs, tolerance))


def _rise_of_trace(model: CopiedCoin, runs: Sequence[CoinRuns], tolerance: float) -> Finding:
    slowest = min(run.memory for run in runs)
    run = min((run for run in runs if run.memory == slowest), key=lambda run: run.samples.learning_rate)
    start = model.difference(model.least_trace)
    fallen = start * exp(-model.decay(run.times[-1], run.memory, run.samples.batch_size))
    return estimated(
        "rise of the trace",
        "AdamW leaves the point of least trace, and the trace rises as far as along the flow of Σ √H_ii.",
        SOURCE,
        sample_mean(model.trace(run.differences[-1]) / model.trace(start)),
        "equal to",
        float(model.trace(fallen) / model.trace(start)),
        unit="of the least trace",
        tolerance=tolerance / 5,
        paper="equation (1), which is about SGD: 1",
    )


def _coin_panel(model: CopiedCoin, runs: Sequence[CoinRuns]) -> Panel:
    start, rows = float(model.difference(model.least_trace)), list[Row]()
    last = min(run.samples.learning_rate for run in runs)
    for run in runs:
        if run.samples.learning_rate > last:
            continue
        batch = run.samples.batch_size
        name = f"1 - β2 = {run.memory:g} α, B = {batch}"
        rows += mean_rows(run.times, run.differences, name, name, unit=start)
        for time in run.times:
            predicted = exp(-model.decay(time, run.memory, batch))
            rows.append((time, predicted, 0.0, name, f"{name}, predicted", True))
    return panel_of_paths(
        "adamw-coin-decay",
        "AdamW's mean and the closed form",
        f"Mean of n u - V relative to its start at α = {last:g}, with its standard error; dashed: the "
        "prediction. With a faster second moment the drift is slower, the more so for small batches.",
        Axis("t", "t = kα²"),
        Axis("difference", "mean of n u - V over its start", "error", logarithmic=True),
        rows,
    )


ENTRY = Entry("adamw-coin", adamw_coin, FULL, SMOKE, seconds=40)
