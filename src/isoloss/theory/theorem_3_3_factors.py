"""Theorem 3.3 where the flow must be integrated, and on a table of logits in two factors.

Runs of SGD are compared with the flow of the trace that they should follow, at decreasing learning rates. The
table's minimisers are a manifold of known codimension. One coin, with the flow in closed form, is in
`theorem_3_3_coin`, a tiny transformer in `theorem_3_3_transformer`.
"""

from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.panels import Axis, Panel
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, sample_mean
from isoloss.seeds import derived_seed
from isoloss.theory.finding import Entry, Finding, Statement, estimated, stated
from isoloss.theory.minimisers import COEFFICIENT, Minimisers, factor_table, trace_flow
from isoloss.theory.optimiser_paths import (
    Row,
    SGDSettings,
    fitted_order,
    mean_rows,
    panel_of_paths,
    root_mean_square,
    sgd_paths,
    weighted_line,
)

SOURCE = "Theorem 3.3 and equation (1)"
_float64 = partial(torch.tensor, dtype=torch.float64)
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


@dataclass(frozen=True)
class FlowAgainstSGD:
    """The flow's traces at the same n `times`, starting at 0, and SGD's runs at each learning rate."""

    times: tuple[float, ...]
    flow: Float[Tensor, " n"]
    codimensions: tuple[int, ...]
    runs: tuple[RunsAtOneRate, ...]

    def fall(self, at_rate: RunsAtOneRate) -> Estimate:
        """The mean fall of the trace, in units of the flow's fall, and its standard error."""
        return sample_mean((self.flow[0] - at_rate.traces_below) / (self.flow[0] - self.flow[-1]))

    @property
    def fall_in_the_limit(self) -> Estimate:
        """`fall` as η → 0, by a line in the learning rate."""
        rates = [each.learning_rate for each in self.runs]
        return weighted_line(rates, [*map(self.fall, self.runs)]).intercept

    @property
    def order_of_distance(self) -> Estimate:
        """The order in η of the runs' root mean square distance from the flow."""
        distances = [root_mean_square(each.distances) for each in self.runs]
        return fitted_order([each.learning_rate for each in self.runs], distances)


def flow_against_sgd(
    minimisers: Minimisers, start: Float[Tensor, " P"], race: Race, progress: Progress = silent
) -> FlowAgainstSGD:
    """Integrate equation (1) from `start` on Γ, and run SGD from there at each learning rate."""
    trace = minimisers.trace(start)
    slope = COEFFICIENT / race.batch_size * float(minimisers.trace_gradient(start).square().sum())
    end = min(race.lifetimes * trace / slope, race.most_steps * (race.rates[-1] / trace) ** 2)
    times = [end * point / race.points for point in range(race.points + 1)]
    flow = trace_flow(
        minimisers,
        start,
        times,
        batch_size=race.batch_size,
        relative_tolerance=race.relative_tolerance,
        progress=progress,
    )
    runs = []
    for number, rate in enumerate(race.rates):
        seed = derived_seed(race.seed, "SGD", number)
        sgd = SGDSettings(rate / trace, race.batch_size, race.paths, seed)
        traces, ends = [], start[None]
        for ends in sgd_paths(minimisers, start, sgd, times, progress):
            traces.append([minimisers.trace(at) for at in ends])
        below = _float64([minimisers.trace(minimisers.reach(at)) for at in ends])
        distances = (ends - flow[-1]).norm(dim=1)
        runs.append(RunsAtOneRate(sgd.learning_rate, _float64(traces), below, distances))
    traces_of_flow = _float64([minimisers.trace(at) for at in flow])
    codimensions = tuple(minimisers.codimension(at) for at in flow)
    return FlowAgainstSGD(tuple(times), traces_of_flow, codimensions, tuple(runs))


def codimension_finding(race: FlowAgainstSGD, predicted: int) -> Finding:
    """The rank of ∇²L at every time of the flow, which is constant by Assumption 3.1."""
    found = next((rank for rank in race.codimensions if rank != predicted), predicted)
    sentence = "Along the flow, the Hessian has rank C (V - 1), the number of independent probabilities."
    source, n, unit = "Assumption 3.1", len(race.codimensions), "dimensions"
    return Finding("codimension", sentence, source, found, "equal to", predicted, n=n, unit=unit)


IN_THE_LIMIT = (
    "As η falls to 0, the trace falls as far along SGD as along the flow dθ/dt = -(1/4B) ∇_Γ Tr ∇²L."
)


def fall_finding(sentence: str, fall: Estimate, tolerance: float) -> Finding:
    """The decrease of the trace under SGD, in units of the flow's."""
    name, unit = "fall of the trace", "of the flow's fall"
    return estimated(name, sentence, SOURCE, fall, "equal to", 1.0, unit=unit, tolerance=tolerance)


def order_finding(race: FlowAgainstSGD, tolerance: float) -> Finding:
    """How SGD's distance from the flow falls with η."""
    sentence = "The root mean square distance of the runs from the flow falls as √η (exponent)."
    source = f"{SOURCE}: convergence as η → 0; across Γ runs have the variance η / 2B"
    order = race.order_of_distance
    return estimated("order of the distance", sentence, source, order, "equal to", 0.5, tolerance=tolerance)


def trace_panel(race: FlowAgainstSGD, name: str, of_what: str) -> Panel:
    """Trace against t: the flow, the mean of SGD's runs at each learning rate, and some single runs."""
    flow = "equation (1)"
    rows: list[Row] = [
        (t, trace, 0.0, flow, flow, True) for t, trace in zip(race.times, race.flow.tolist(), strict=True)
    ]
    for at_rate in race.runs:
        path = f"mean of SGD, η = {at_rate.learning_rate:.3g}"
        rows += mean_rows(race.times, at_rate.traces, path, path)
    path = f"one run of SGD, η = {race.runs[-1].learning_rate:.3g}"
    for number, run in enumerate(race.runs[-1].traces.T[:SINGLE_RUNS].tolist(), start=1):
        rows += [
            (t, trace, 0.0, path, f"run {number}", False) for t, trace in zip(race.times, run, strict=True)
        ]
    return panel_of_paths(
        name,
        f"Trace against time: {of_what}",
        "The trace along the flow of equation (1) (dashed) and along SGD's runs, at t = kη²: means with "
        "their standard errors, and single runs at the smallest learning rate. Runs fluctuate around Γ, "
        "less so for smaller η.",
        Axis("t", "t = kη²"),
        Axis("trace", "trace of ∇²L", "error"),
        rows,
    )


@dataclass(frozen=True)
class FactorSettings:
    """A hidden Markov model of `words` words and two states, sentences of `length`, and U Vᵀ of `rank`.

    The start is normal and taken to an exact fit by Newton's method; seeds are those of `Race`. The fall's
    tolerance is about the square of the second largest rate, the error of a line in η; the order's is below a
    quarter, half the distance from one possible order to the next.
    """

    words: int
    length: int
    rank: int
    race: Race
    fall_tolerance: float = 0.05
    order_tolerance: float = 0.1


def theorem_3_3_factors(settings: FactorSettings, progress: Progress = silent) -> Statement:
    """SGD's runs against the integrated flow of the trace, from one point at an exact fit."""
    seed = settings.race.seed
    minimisers, start = factor_table(
        settings.words,
        settings.rank,
        length=settings.length,
        language_seed=seed,
        start_seed=derived_seed(seed, "start"),
    )
    codimension, parameters = minimisers.distributions.codimension, len(start)
    race = flow_against_sgd(minimisers, minimisers.reach(start), settings.race, progress)
    return Statement(
        name="theorem-3.3-factors",
        title="Does SGD at an exact fit flatten? A table of logits in two factors",
        text=(
            f"Logits U Vᵀ of {len(minimisers.distributions.weight)} contexts and {settings.words} words have "
            f"{parameters} parameters and {codimension} independent probabilities, so their minimisers form "
            f"a manifold of {parameters - codimension} dimensions. Equation (1) is integrated on it, and "
            "runs of SGD start from the same point. It would fail with another constant, or if SGD drifted "
            "in another direction on the manifold."
        ),
        findings=(
            codimension_finding(race, codimension),
            fall_finding(IN_THE_LIMIT, race.fall_in_the_limit, settings.fall_tolerance),
            order_finding(race, settings.order_tolerance),
        ),
        panels=(trace_panel(race, "factors-trace", "a table of logits in two factors"),),
        settings=(
            ("words", str(settings.words)),
            ("sentence length", str(settings.length)),
            ("rank", str(settings.rank)),
            *stated(settings.race),
        ),
    )


ENTRY = Entry(
    "theorem-3.3-factors",
    theorem_3_3_factors,
    full=FactorSettings(3, 2, 4, Race((0.4, 0.2, 0.1), 0.25, 5, paths=100, batch_size=1, seed=1)),
    smoke=FactorSettings(2, 2, 2, Race((0.2, 0.05), 0.5, 2, paths=100, batch_size=1, seed=1)),
    seconds=60,
)
