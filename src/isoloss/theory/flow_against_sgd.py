"""Compares runs of SGD with the flow of the trace that they should follow, at decreasing learning rates."""

from dataclasses import dataclass

import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.panels import Axis, Colour, Lines, Panel
from isoloss.progress import Progress, silent
from isoloss.seeds import derived_seed
from isoloss.theory.finding import Finding
from isoloss.theory.minimisers import COEFFICIENT, Minimisers, trace_flow
from isoloss.theory.sgd_paths import Line, SGDSettings, fitted_order, sgd_paths, weighted_line

SOURCE = "Theorem 3.3 and equation (1)"
SINGLE_RUNS = 20
"""The number of runs drawn one by one: few enough that the cloud can be read."""


@dataclass(frozen=True)
class Race:
    """What is compared: free of scale, so that any model and language can be used.

    `rates` are learning rates as fractions of 1 / Tr ∇²L at the start: at most half of the edge of stability.
    The flow and SGD run for `lifetimes` times Tr / |dTr/dt|, the flow's initial time constant, or as far as
    `most_steps` reach at the last rate, since the speed at which random starts flatten differs by orders of
    magnitude. All randomness is derived from `seed`. `relative_tolerance` is the integrator's.
    """

    rates: tuple[float, ...]
    lifetimes: float
    points: int
    paths: int
    batch_size: int
    seed: int
    relative_tolerance: float = 1e-8
    most_steps: int = 1_000_000


@dataclass(frozen=True)
class RunsAtOneRate:
    """R runs of SGD at one learning rate, observed at n times.

    `traces` are those at the runs' points; `traces_below` those of the points of Γ to which Newton's method
    takes the runs at the last time; `distances` are from the flow at the last time.
    """

    learning_rate: float
    traces: Float[Tensor, "n R"]
    traces_below: Float[Tensor, " R"]
    distances: Float[Tensor, " R"]

    @property
    def distance(self) -> tuple[float, float]:
        """Root mean square distance from the flow, and its standard error (delta method)."""
        squares = self.distances.square()
        root = float(squares.mean().sqrt())
        return root, float(squares.std()) / len(squares) ** 0.5 / (2 * root)


@dataclass(frozen=True)
class FlowAgainstSGD:
    """The flow's traces at the same n `times`, starting at 0, and SGD's runs at each learning rate."""

    times: tuple[float, ...]
    flow: Float[Tensor, " n"]
    codimensions: tuple[int, ...]
    runs: tuple[RunsAtOneRate, ...]

    def fall(self, at_rate: RunsAtOneRate) -> tuple[float, float]:
        """The mean fall of the trace, in units of the flow's fall, and its standard error."""
        falls = (self.flow[0] - at_rate.traces_below) / (self.flow[0] - self.flow[-1])
        return float(falls.mean()), float(falls.std()) / len(falls) ** 0.5

    @property
    def fall_in_the_limit(self) -> Line:
        """`fall` as a line in the learning rate: its intercept is the fall as η → 0."""
        falls = [self.fall(at_rate) for at_rate in self.runs]
        values, errors = [value for value, _ in falls], [error for _, error in falls]
        return weighted_line([at_rate.learning_rate for at_rate in self.runs], values, errors)

    @property
    def order_of_distance(self) -> Line:
        """`slope` is the order in η of the distance from the flow."""
        distances = [at_rate.distance for at_rate in self.runs]
        values, errors = [value for value, _ in distances], [error for _, error in distances]
        return fitted_order([at_rate.learning_rate for at_rate in self.runs], values, errors)

    def data(self) -> pl.DataFrame:
        """Traces against t: the flow, `predicted`; the mean of SGD at each learning rate; some single runs.

        The single runs are `SINGLE_RUNS` of the last learning rate. Columns t, trace, error, path, series,
        predicted.
        """
        flow = "equation (1)"
        rows = [
            (t, trace, 0.0, flow, flow, True) for t, trace in zip(self.times, self.flow.tolist(), strict=True)
        ]
        for at_rate in self.runs:
            errors = (at_rate.traces.std(dim=1) / at_rate.traces.shape[1] ** 0.5).tolist()
            means = zip(self.times, at_rate.traces.mean(dim=1).tolist(), errors, strict=True)
            path = f"mean of SGD, η = {at_rate.learning_rate:.3g}"
            rows += [(t, mean, error, path, path, False) for t, mean, error in means]
        path = f"one run of SGD, η = {self.runs[-1].learning_rate:.3g}"
        for number, run in enumerate(self.runs[-1].traces.T[:SINGLE_RUNS].tolist(), start=1):
            name = f"run {number}"
            rows += [(t, trace, 0.0, path, name, False) for t, trace in zip(self.times, run, strict=True)]
        return pl.DataFrame(rows, ["t", "trace", "error", "path", "series", "predicted"], orient="row")


def flow_against_sgd(
    minimisers: Minimisers,
    start: Float[Tensor, " P"],
    race: Race,
    *,
    coefficient: float = COEFFICIENT,
    progress: Progress = silent,
) -> FlowAgainstSGD:
    """Integrate equation (1) from `start` on Γ, and run SGD from there at each learning rate.

    `coefficient` applies to the flow only: SGD does not use it.
    """
    trace = minimisers.trace(start)
    slope = COEFFICIENT / race.batch_size * float(minimisers.trace_gradient(start).square().sum())
    end = min(race.lifetimes * trace / slope, race.most_steps * (race.rates[-1] / trace) ** 2)
    times = [end * point / race.points for point in range(race.points + 1)]
    flow = trace_flow(
        minimisers,
        start,
        times,
        batch_size=race.batch_size,
        coefficient=coefficient,
        relative_tolerance=race.relative_tolerance,
        progress=progress,
    )
    runs = tuple(
        _runs(
            minimisers,
            start,
            SGDSettings(rate / trace, race.batch_size, race.paths, derived_seed(race.seed, "SGD", number)),
            times,
            flow[-1],
            progress,
        )
        for number, rate in enumerate(race.rates)
    )
    traces = torch.tensor([minimisers.trace(at) for at in flow])
    codimensions = tuple(minimisers.codimension(at) for at in flow)
    return FlowAgainstSGD(tuple(times), traces, codimensions, runs)


def _runs(
    minimisers: Minimisers,
    start: Float[Tensor, " P"],
    settings: SGDSettings,
    times: list[float],
    flow_end: Float[Tensor, " P"],
    progress: Progress,
) -> RunsAtOneRate:
    traces, ends = [], start[None]
    for ends in sgd_paths(minimisers.model, minimisers.distributions, start, settings, times, progress):
        traces.append([minimisers.trace(at) for at in ends])
    below = torch.tensor([minimisers.trace(minimisers.reach(at)) for at in ends])
    distances = (ends - flow_end).norm(dim=1)
    return RunsAtOneRate(settings.learning_rate, torch.tensor(traces), below, distances)


def codimension_finding(race: FlowAgainstSGD, predicted: int) -> Finding:
    """The rank of ∇²L at every time of the flow, which is constant by Assumption 3.1."""
    wrong = [found for found in race.codimensions if found != predicted]
    return Finding(
        name="codimension",
        sentence="Along the flow, ∇²L has rank C (V - 1), the number of independent probabilities.",
        source="Assumption 3.1",
        predicted=predicted,
        relation="equal to",
        measured=(wrong or [predicted])[0],
        n=len(race.codimensions),
        unit="dimensions",
        tolerance=0.0,
    )


def fall_finding(race: FlowAgainstSGD, tolerance: float) -> Finding:
    """The decrease of the trace under SGD as η → 0, in units of the flow's."""
    limit = race.fall_in_the_limit
    return Finding(
        name="fall of the trace",
        sentence="As η → 0, SGD's trace falls as far as along the flow dθ/dt = -(1/4B) ∇_Γ Tr ∇²L.",
        source=SOURCE,
        predicted=1.0,
        relation="equal to",
        measured=limit.intercept,
        standard_error=limit.intercept_error,
        n=sum(len(at_rate.traces_below) for at_rate in race.runs),
        unit="of the flow's fall",
        tolerance=tolerance,
    )


def fall_at_last_rate_finding(race: FlowAgainstSGD, tolerance: float) -> Finding:
    """The decrease of the trace under SGD at the last learning rate, in units of the flow's."""
    fall, error = race.fall(race.runs[-1])
    return Finding(
        name="fall of the trace",
        sentence="At the last learning rate, SGD's trace falls about as far as along equation (1).",
        source=SOURCE,
        predicted=1.0,
        relation="equal to",
        measured=fall,
        standard_error=error,
        n=len(race.runs[-1].traces_below),
        unit="of the flow's fall",
        tolerance=tolerance,
    )


def order_finding(race: FlowAgainstSGD, tolerance: float) -> Finding:
    """How SGD's distance from the flow falls with η."""
    order = race.order_of_distance
    return Finding(
        name="order of the distance",
        sentence="The root mean square distance of the runs from the flow falls as √η.",
        source=f"{SOURCE}: convergence as η → 0; across Γ runs have the variance η / 2B",
        predicted=0.5,
        relation="equal to",
        measured=order.slope,
        standard_error=order.slope_error,
        n=sum(len(at_rate.traces_below) for at_rate in race.runs),
        tolerance=tolerance,
    )


def trace_panel(race: FlowAgainstSGD, name: str, of_what: str) -> Panel:
    """Trace against t: the flow, the mean of SGD's runs at each learning rate, and the cloud of runs."""
    return Panel(
        name=name,
        title=f"Trace against time: {of_what}",
        caption=(
            "The trace along the flow of equation (1) (dashed) and along SGD's runs, at t = kη²: means with "
            "their standard errors, and single runs at the smallest learning rate. Runs fluctuate around Γ, "
            "less so for smaller η."
        ),
        charts=(
            Lines(
                Axis("t", "t = kη²"),
                Axis("trace", "trace of ∇²L", "error"),
                Colour("path", "path"),
                series="series",
                predicted="predicted",
            ),
        ),
        data=race.data(),
    )
