"""AdamW among the minimisers: the flow that it follows as α → 0, and runs of it on a table in two factors.

At the distribution the mean gradient of B samples has mean 0 and covariance H / B (Lemma 3.2), so that Adam's
second moment is H_ii / B and its step is -α D g, D = √B diag(H_ii)^(-1/2). With D held fixed this is SGD in
the coordinates D^(-1/2) θ, and the limit of Li, Wang and Arora (2022), Theorem 3.3's, is there
dθ/dt = -(1/4B) D^½ P D^½ ∇ Tr(D H), t = kα², P the orthogonal projection onto the tangent space of the
minimisers in these coordinates. Since D is √B over the roots of the diagonal, ∇ Tr(D H) = 2 √B ∇ Σ √H_ii, and

    dθ/dt = -½ S^(-½) P S^(-½) ∇ Σ_i √H_ii,   S = diag √H_ii:

a gradient flow of Σ √H_ii, not of the trace, by a clock α²k without the batch.

This assumes that the second moment is a function of the slow motion alone: 1 - β2 small compared with the
rates α a_j at which AdamW returns to the minimisers, a_j being the eigenvalues of D^½ H D^½. A faster second
moment follows the swings about the minimisers, and is then not independent of the gradient that it divides.
With 1 - β2 = κα, the share f_j = κ / (κ + a_j) of the swing along n_j is followed, and to order α² that adds

    (1 / 4√B) H_ii^(-3/2) D_i^(-½) Σ_k M_ik D_k^½ (∂_k E g_i² - 2 E g_i² g_k),   M = Σ_j f_j a_j n_j n_jᵀ,

(of one sample's g) where the second term is the skewness of what the moment remembers, and, of the step's own
gradient in it, (κ / 2√B) H_ii^(-3/2) E g_i³; both along the minimisers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad, jacrev

from isoloss.panels import Axis, Panel
from isoloss.progress import Progress, part_of, silent
from isoloss.results.estimate import Estimate, jackknifed, sample_mean
from isoloss.seeds import derived_seed
from isoloss.theory.finding import Entry, Finding, Statement, estimated, stated
from isoloss.theory.minimisers import RANK_CUT_OFF, Minimisers, factor_table, flow_along, trace_flow
from isoloss.theory.optimiser_paths import (
    Row,
    SGDSettings,
    adamw_paths,
    panel_of_paths,
    weighted_line,
)
from isoloss.theory.softmax_model import scores

SOURCE = "beyond the paper: Theorem 3.3's limit, with AdamW's preconditioner"


def sum_of_roots(minimisers: Minimisers, parameters: Float[Tensor, " P"]) -> Float[Tensor, ""]:
    """Σ_i √H_ii, which AdamW's flow descends."""
    return minimisers.fisher_diagonal(parameters).sqrt().sum()


def adamw_drift(
    minimisers: Minimisers, at: Float[Tensor, " P"], memory: float = 0.0, batch_size: int = 1
) -> Float[Tensor, " P"]:
    """dθ/dt on Γ in t = kα², as in the module's docstring; with `memory` 0, the flow of Σ √H_ii alone."""
    diagonal = minimisers.fisher_diagonal(at)
    root_scale = (batch_size / diagonal).sqrt().sqrt()  # D^½
    rows = minimisers.whitened_scores(at) * root_scale
    _, values, normals = torch.linalg.svd(rows, full_matrices=False)
    known = values > RANK_CUT_OFF * values[0]
    rates, normals = values[known] ** 2, normals[known]
    slope = grad(lambda parameters: sum_of_roots(minimisers, parameters))(at)
    # In the coordinates D^(-½) θ; S^(-½) is D^½ B^(-¼).
    drift = -root_scale * slope / (2 * batch_size**0.5)
    if memory:
        followed = memory / (memory + rates) * rates
        swings = normals.T @ (followed[:, None] * normals)
        changes, skewness = _moments(minimisers, at)
        cubed = batch_size**-0.5 * diagonal**-1.5 / root_scale
        drift = drift + cubed / root_scale * (swings * root_scale * (changes - 2 * skewness)).sum(dim=1) / 4
        drift = drift + cubed * memory * skewness.diagonal() / 2
    tangent: Tensor = root_scale * (drift - normals.T @ (normals @ drift))
    return tangent


def _moments(
    minimisers: Minimisers, at: Float[Tensor, " P"]
) -> tuple[Float[Tensor, "P P"], Float[Tensor, "P P"]]:
    """∂_k E g_i² and E g_i² g_k, for one sample drawn from the distribution."""
    logits, joint = minimisers.logits, minimisers.distributions.joint

    def second_moment(parameters: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
        return (joint[..., None] * scores(logits, parameters)[0].square()).sum(dim=(0, 1))

    changes: Tensor = jacrev(second_moment)(at)
    rows = scores(logits, at)[0].flatten(0, 1)
    return changes, (joint.flatten()[:, None] * rows.square()).T @ rows


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
    minimisers, start = factor_table(
        settings.words, settings.rank, language_seed=settings.seed, start_seed=settings.seed
    )
    start, batches = minimisers.reach(start), settings.batch_sizes
    runs = [
        _factor_runs(minimisers, start, settings, batch, part_of(progress, number, len(batches)))
        for number, batch in enumerate(batches)
    ]
    return Statement(
        name="adamw-factors",
        title="Where does AdamW at an exact fit go? A table of logits in two factors",
        text=(
            f"Logits U Vᵀ of {len(minimisers.distributions.weight)} contexts have {len(start)} parameters. "
            "On their best fits, three flows are integrated from one point: AdamW's, including how its "
            "second moment follows the fluctuations of the gradient; the flow of Σ √H_ii alone, which a slow "
            "second moment would give; and equation (1). Runs of AdamW start at the same point. The "
            "derivation would fail if Σ √H_ii fell by another amount as α → 0, or if the runs ended nearer "
            "to another flow."
        ),
        findings=tuple(
            found for run in runs for found in factor_findings(minimisers, start, run, settings.tolerance)
        ),
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

    def flow(memory: float) -> Float[Tensor, " P"]:
        def drift(at: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
            return adamw_drift(minimisers, at, memory, batch_size)

        return flow_along(minimisers, drift, start, [end], relative_tolerance=1e-6)[-1]

    # Along equation (1) as far as its trace halves at its initial speed, and as often as it is observed.
    reach = 2 * minimisers.trace(start) / float(minimisers.trace_gradient(start).square().sum())
    of_trace = trace_flow(minimisers, start, [reach * n / 20 for n in range(21)], relative_tolerance=1e-6)
    ends = []
    for number, rate in enumerate(settings.learning_rates):
        samples = SGDSettings(rate, batch_size, settings.paths, derived_seed(settings.seed, "AdamW", number))
        part = part_of(progress, number, len(settings.learning_rates))
        (at,) = adamw_paths(minimisers, start, samples, settings.memory, [end], part)
        ends.append(torch.stack([minimisers.reach(each) for each in at]))
    rates = settings.learning_rates
    return FactorRuns(batch_size, rates, tuple(ends), flow(settings.memory), flow(0.0), of_trace)


def factor_findings(
    minimisers: Minimisers, start: Float[Tensor, " P"], runs: FactorRuns, tolerance: float
) -> tuple[Finding, ...]:
    """The fall of Σ √H_ii as α → 0, and the distance of AdamW's mean end at the last α from each flow."""

    def falls(at: Float[Tensor, "R P"]) -> Float[Tensor, " R"]:
        before = sum_of_roots(minimisers, start)
        return torch.stack([before - sum_of_roots(minimisers, each) for each in at])

    of_flow = float(falls(runs.flow[None]))
    fallen = [sample_mean(falls(at) / of_flow) for at in runs.ends]
    of_batch = f"Batch size {runs.batch_size}"
    moved, batch, paths = float((runs.flow - start).norm()), f"B = {runs.batch_size}", len(runs.ends[-1])
    spread = float((runs.ends[-1].var(dim=0).sum() / paths).sqrt()) / moved
    from_flow, from_others, of_both = _distances(runs)
    return (
        estimated(
            f"fall of Σ √H_ii, {batch}",
            f"{of_batch}: as α falls to 0, Σ √H_ii falls as far along AdamW as along its flow.",
            SOURCE,
            weighted_line(runs.learning_rates, fallen).intercept,
            "equal to",
            1.0,
            unit="of the flow's fall",
            tolerance=tolerance,
        ),
        estimated(
            f"distance from the flow, {batch}",
            f"{of_batch}: at the last α, the runs' mean endpoint is that of AdamW's flow (distance).",
            SOURCE,
            Estimate(from_flow / moved, spread, paths),
            "at most",
            0.0,
            unit="of the way from the start",
            tolerance=tolerance,
        ),
        estimated(
            f"distance from the other flows, {batch}",
            f"{of_batch}: it is at least twice as far from the flow of Σ √H_ii alone and from "
            "every point of the flow of the trace (distance).",
            SOURCE,
            # The error is that of the difference: both prediction and measurement contribute.
            Estimate(from_others / moved, of_both / moved, paths),
            "at least",
            2 * from_flow / moved,
            unit="of the way from the start",
        ),
    )


def _distances(runs: FactorRuns) -> tuple[float, float, float]:
    """From the last mean end to AdamW's flow and to the nearest other, and the error of other - 2 x flow.

    The error is a jackknife over runs, since an error in the mean end affects all flows at once.
    """
    ends = runs.ends[-1]
    paths = len(ends)
    # The mean of all, and without each run.
    means = torch.cat([ends.mean(dim=0, keepdim=True), (ends.sum(dim=0) - ends) / (paths - 1)])
    from_flow = (means - runs.flow).norm(dim=1)
    others = torch.cat([runs.slow_flow[None], runs.of_trace])
    least = (means[:, None] - others).norm(dim=2).amin(dim=1)
    difference = least - 2 * from_flow
    error = jackknifed(difference[0], difference[1:]).standard_error
    return float(from_flow[0]), float(least[0]), error


def _factor_panel(minimisers: Minimisers, start: Float[Tensor, " P"], runs: Sequence[FactorRuns]) -> Panel:
    rows: list[Row] = []

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
    return panel_of_paths(
        "adamw-factors-ends",
        "Three paths along the best fits",
        "Trace and Σ √H_ii along equation (1), and (straight lines) from the start to the ends of AdamW's "
        "flow and of the flow of Σ √H_ii alone; all dashed. Dots are the mean endpoints of AdamW, one for "
        "each α.",
        Axis("trace", "trace of ∇²L"),
        Axis("roots", "Σ √H_ii", "error"),
        rows,
    )


ENTRY = Entry("adamw-factors", adamw_factors, FULL, SMOKE, seconds=60)
