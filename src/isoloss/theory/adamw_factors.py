"""AdamW on a table of logits in two factors: which of three flows along the minimisers does it follow?"""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad

from isoloss.languages.random_hmm import random_hmm
from isoloss.panels import Axis, Colour, Lines, Panel
from isoloss.progress import Progress, part_of, silent
from isoloss.seeds import derived_seed
from isoloss.theory.adamw_flow import (
    SOURCE,
    AdamWSettings,
    adamw_drift,
    adamw_flow,
    adamw_paths,
    sum_of_roots,
)
from isoloss.theory.context_distributions import enumerated_contexts
from isoloss.theory.finding import Finding, Statement, stated
from isoloss.theory.minimisers import Minimisers, trace_flow
from isoloss.theory.sgd_paths import SGDSettings, weighted_line
from isoloss.theory.softmax_model import FactorTable


@dataclass(frozen=True)
class FactorSettings:
    """A table of logits U Vᵀ of `rank` for sentences of two words, from a random start at an exact fit.

    Runs last until the flow has taken `lifetimes` of Σ √H_ii at its initial speed. Some random starts with a
    small `seed` lead to parameters with H_ii = 0, where the root has no derivative, and most have curvatures
    for which AdamW takes too long. `tolerance` is as the coin's.
    """

    words: int
    rank: int
    memory: float
    batch_sizes: tuple[int, ...]
    learning_rates: tuple[float, ...]
    lifetimes: float
    paths: int
    seed: int
    tolerance: float = 0.1


FULL = FactorSettings(2, 2, 1.0, (1, 4), (0.02, 0.01, 0.005), 0.2, paths=100, seed=7)
SMOKE = FactorSettings(2, 2, 1.0, (1,), (0.04, 0.02), 0.1, paths=60, seed=7, tolerance=0.25)


@dataclass(frozen=True)
class FactorRuns:
    """AdamW's end points at each α, taken to an exact fit, and three flows from its start at the same time.

    `flow` includes the second moment's memory, `slow_flow` is that of Σ √H_ii alone, and `of_trace` are
    points along equation (1), which has another clock.
    """

    batch_size: int
    learning_rates: tuple[float, ...]
    ends: tuple[Float[Tensor, "R P"], ...]
    flow: Float[Tensor, " P"]
    slow_flow: Float[Tensor, " P"]
    of_trace: Float[Tensor, "n P"]


def adamw_factors(settings: FactorSettings, progress: Progress = silent) -> Statement:
    """AdamW's runs against the integrated flows, from one point at an exact fit."""
    language = random_hmm(words=settings.words, states=2, blocks=1, length=2, seed=settings.seed)
    distributions = enumerated_contexts(language).distributions
    model = FactorTable(len(distributions.weight), settings.words, settings.rank)
    minimisers = Minimisers(model, distributions)
    start = minimisers.reach(model.random_parameters(settings.seed))
    batches = settings.batch_sizes
    runs = [
        _factor_runs(minimisers, start, settings, batch, part_of(progress, number, len(batches)))
        for number, batch in enumerate(batches)
    ]
    findings = [
        found for run in runs for found in factor_findings(minimisers, start, run, settings.tolerance)
    ]
    return Statement(
        name="adamw-factors",
        title="AdamW at an exact fit: a table of logits in two factors",
        text=(
            f"Logits U Vᵀ of {len(distributions.weight)} contexts have {model.parameters} parameters. On "
            "their best fits, three flows are integrated from one point: AdamW's, including how its second "
            "moment follows the fluctuations of the gradient; the flow of Σ √H_ii alone, which a slow second "
            "moment would give; and equation (1). Runs of AdamW start at the same point. The derivation "
            "would fail if Σ √H_ii fell by another amount as α → 0, or if the runs ended nearer to another "
            "flow."
        ),
        findings=tuple(findings),
        panels=(_factor_panel(minimisers, start, runs),),
        settings=stated(settings),
    )


def _factor_runs(
    minimisers: Minimisers,
    start: Float[Tensor, " P"],
    settings: FactorSettings,
    batch_size: int,
    progress: Progress,
) -> FactorRuns:
    slope = grad(lambda at: sum_of_roots(minimisers, at))(start)
    speed = -float(adamw_drift(minimisers, start, settings.memory, batch_size) @ slope)
    end = settings.lifetimes * float(sum_of_roots(minimisers, start)) / speed
    flow, slow_flow = (
        adamw_flow(minimisers, start, [end], memory=memory, batch_size=batch_size)[-1]
        for memory in (settings.memory, 0.0)
    )
    # Along equation (1) as far as its trace halves at its initial speed, and as often as it is observed.
    reach = 2 * minimisers.trace(start) / float(minimisers.trace_gradient(start).square().sum())
    of_trace = trace_flow(minimisers, start, [reach * n / 20 for n in range(21)], relative_tolerance=1e-6)
    ends = []
    for number, rate in enumerate(settings.learning_rates):
        samples = SGDSettings(rate, batch_size, settings.paths, derived_seed(settings.seed, "AdamW", number))
        part = part_of(progress, number, len(settings.learning_rates))
        (at,) = adamw_paths(minimisers, start, AdamWSettings(samples, settings.memory), [end], part)
        ends.append(torch.stack([minimisers.reach(each) for each in at]))
    return FactorRuns(batch_size, settings.learning_rates, tuple(ends), flow, slow_flow, of_trace)


def factor_findings(
    minimisers: Minimisers, start: Float[Tensor, " P"], runs: FactorRuns, tolerance: float
) -> tuple[Finding, ...]:
    """The fall of Σ √H_ii as α → 0, and the distance of AdamW's mean end at the last α from each flow."""

    def falls(at: Float[Tensor, "R P"]) -> Float[Tensor, " R"]:
        before = sum_of_roots(minimisers, start)
        return torch.stack([before - sum_of_roots(minimisers, each) for each in at])

    of_flow = float(falls(runs.flow[None]))
    fallen = [falls(at) / of_flow for at in runs.ends]
    errors = [float(each.std()) / len(each) ** 0.5 for each in fallen]
    limit = weighted_line(runs.learning_rates, [float(each.mean()) for each in fallen], errors)
    moved, batch, paths = float((runs.flow - start).norm()), f"B = {runs.batch_size}", len(runs.ends[-1])
    spread = float((runs.ends[-1].var(dim=0).sum() / paths).sqrt()) / moved
    own, least, of_both = _distances(runs)
    return (
        Finding(
            name=f"fall of Σ √H_ii, {batch}",
            sentence="As α → 0, Σ √H_ii falls as far along AdamW as along its flow, whatever the batch size.",
            source=SOURCE,
            predicted=1.0,
            relation="equal to",
            measured=limit.intercept,
            standard_error=limit.intercept_error,
            n=len(runs.ends) * paths,
            unit="of the flow's fall",
            tolerance=tolerance,
        ),
        Finding(
            name=f"distance from the flow, {batch}",
            sentence="At the last α, the mean endpoint of the runs is that of AdamW's flow.",
            source=SOURCE,
            predicted=0.0,
            relation="at most",
            measured=own / moved,
            standard_error=spread,
            n=paths,
            unit="of the way from the start",
            tolerance=tolerance,
        ),
        Finding(
            name=f"distance from the other flows, {batch}",
            sentence=(
                "The endpoint is at least twice as far from the flow of Σ √H_ii alone, which ignores the "
                "second moment's memory, and from every point of the flow of the trace."
            ),
            source=SOURCE,
            predicted=2 * own / moved,
            relation="at least",
            measured=least / moved,
            standard_error=of_both / moved,  # of their difference: both prediction and measurement contribute
            n=paths,
            unit="of the way from the start",
            tolerance=0.0,
        ),
    )


def _distances(runs: FactorRuns) -> tuple[float, float, float]:
    """From the last mean end to AdamW's flow and to the nearest other, and the error of the other - 2 x own.

    The error is a jackknife over runs, since an error in the mean end affects all flows at once.
    """
    ends = runs.ends[-1]
    paths = len(ends)
    # The mean of all, and without each run.
    means = torch.cat([ends.mean(dim=0, keepdim=True), (ends.sum(dim=0) - ends) / (paths - 1)])
    own = (means - runs.flow).norm(dim=1)
    others = torch.cat([runs.slow_flow[None], runs.of_trace])
    least = (means[:, None] - others).norm(dim=2).amin(dim=1)
    without = (least - 2 * own)[1:]
    error = ((paths - 1) / paths * (without - without.mean()).square().sum()).sqrt()
    return float(own[0]), float(least[0]), float(error)


def _factor_panel(minimisers: Minimisers, start: Float[Tensor, " P"], runs: Sequence[FactorRuns]) -> Panel:
    rows: list[tuple[float, float, float, str, str, bool]] = []

    def add(points: Float[Tensor, "n P"], path: str, series: str, *, predicted: bool) -> None:
        for at in points:
            roots = float(sum_of_roots(minimisers, at))
            rows.append((minimisers.trace(at), roots, 0.0, path, series, predicted))

    for run in runs:
        batch = f"B = {run.batch_size}"
        add(torch.stack([start, run.flow]), "AdamW's flow", f"AdamW's flow, {batch}", predicted=True)
        add(torch.stack([start, run.slow_flow]), "of Σ √H_ii alone", f"alone, {batch}", predicted=True)
        ends = torch.stack([at.mean(dim=0) for at in run.ends])
        add(ends, f"AdamW's mean ends, {batch}", f"ends, {batch}", predicted=False)
    add(runs[0].of_trace, "equation (1)", "equation (1)", predicted=True)
    return Panel(
        name="adamw-factors-ends",
        title="Three paths along the best fits",
        caption=(
            "Trace and Σ √H_ii along equation (1), and (straight lines) from the start to the ends of "
            "AdamW's flow and of the flow of Σ √H_ii alone; all dashed. Dots are the mean endpoints of "
            "AdamW, one for each α."
        ),
        charts=(
            Lines(
                Axis("trace", "trace of ∇²L"),
                Axis("roots", "Σ √H_ii", "error"),
                Colour("path", "path"),
                series="series",
                predicted="predicted",
            ),
        ),
        data=pl.DataFrame(rows, ["trace", "roots", "error", "path", "series", "predicted"], orient="row"),
    )
