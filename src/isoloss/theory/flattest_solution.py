"""Section 5's main claim: lowering the trace alone leads to the two neurons that count brackets."""

from dataclasses import dataclass

import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import IsolossError
from isoloss.panels import Axis, Colour, Lines, Panel
from isoloss.progress import Progress, part_of, silent
from isoloss.theory.finding import Entry, Finding, Statement, stated
from isoloss.theory.minimisers import least_change
from isoloss.theory.one_layer_transformer import (
    BracketStrings,
    OneLayerTransformer,
    farthest_output,
    masked_strings,
    output_gradients,
    zero_loss_trace,
)
from isoloss.theory.zero_loss_solutions import (
    MISS,
    RIDGE,
    corrected_bound,
    random_weights,
    unevenness,
    units_of_weights,
)

SOURCE = "Theorem 5.1, Lemma G.3"
CORRECTIONS, FIRST_STEP, LEAST_STEP = 8, 0.1, 1e-9


@dataclass(frozen=True)
class Descent:
    """Weights and traces along a descent, from the start: one entry per accepted step."""

    models: tuple[OneLayerTransformer, ...]
    traces: tuple[float, ...]

    @property
    def end(self) -> OneLayerTransformer:
        """The flattest weights found."""
        return self.models[-1]


def flattest_from(
    start: OneLayerTransformer, strings: BracketStrings, steps: int, progress: Progress = silent
) -> Descent:
    """Descend Tr ∇²L over Q, K, V and u along the manifold of zero loss: the problem of Theorem 5.1.

    Conjugate gradients (Polak-Ribière) on the manifold, in `units_of_weights`. The trace's gradient (Lemma
    G.4's closed form, by autograd) is projected onto the tangent space J δ = 0 of the constraints f(x) =
    g*(x), J being their Jacobian; each step is brought back by Newton corrections, the least δ with J δ =
    -(f - g*), until no output is off by more than `MISS`. A step that does not lower the trace is halved, and
    the next one is half as large again. The trace jumps where a neuron starts or stops firing on a string:
    its gradient does not see that, the comparison of traces does. Ends early if no step lowers the trace.

    Raises IsolossError if `start` does not have zero loss.
    """
    if farthest_output(start, strings) > MISS:
        raise IsolossError("the descent must begin at zero loss; fit the weights first")
    units = units_of_weights(start)
    models, traces = [start], [float(zero_loss_trace(start, strings))]
    size, before = FIRST_STEP, None
    for step in range(1, steps + 1):
        jacobian = output_gradients(models[-1], strings.tokens) * units
        gradient = _tangent(_trace_gradient(models[-1], strings) * units, jacobian)
        direction = gradient if before is None else _conjugate(gradient, *before, jacobian)
        before = gradient, direction
        while (found := _lower(models[-1], units, size * direction, traces[-1], strings)) is None:
            size /= 2
            if size < LEAST_STEP:
                return Descent(tuple(models), tuple(traces))
        models.append(found[0])
        traces.append(found[1])
        size *= 1.5
        progress("descending on the trace", step, steps)
    return Descent(tuple(models), tuple(traces))


def _trace_gradient(model: OneLayerTransformer, strings: BracketStrings) -> Float[Tensor, " p"]:
    flat = model.flat().requires_grad_()
    (gradient,) = torch.autograd.grad(zero_loss_trace(model.with_flat(flat), strings), flat)
    return gradient


def _tangent(direction: Float[Tensor, " p"], jacobian: Float[Tensor, "n p"]) -> Float[Tensor, " p"]:
    """The direction without the part that would change the outputs to first order."""
    return direction - least_change(jacobian, jacobian @ direction, RIDGE)


def _conjugate(
    gradient: Float[Tensor, " p"],
    before: Float[Tensor, " p"],
    direction: Float[Tensor, " p"],
    jacobian: Float[Tensor, "n p"],
) -> Float[Tensor, " p"]:
    """Polak and Ribière's direction, from the last gradient and direction; the gradient if that is uphill."""
    share = max(0.0, float(gradient @ (gradient - before) / before.square().sum()))
    conjugate = gradient + share * _tangent(direction, jacobian)
    return conjugate if float(conjugate @ gradient) > 0 else gradient


def _lower(
    model: OneLayerTransformer,
    units: Float[Tensor, " p"],
    step: Float[Tensor, " p"],
    trace: float,
    strings: BracketStrings,
) -> tuple[OneLayerTransformer, float] | None:
    """Weights and trace after the corrected step, if it can be corrected and lowers the trace."""
    moved = model.with_flat(model.flat() - units * step)
    for _ in range(CORRECTIONS):
        misses = moved.outputs(strings.tokens) - strings.target
        if not bool(misses.isfinite().all()):
            return None
        if float(misses.abs().max()) <= MISS:
            lower = float(zero_loss_trace(moved, strings))
            return (moved, lower) if lower < trace else None
        correction = least_change(output_gradients(moved, strings.tokens) * units, misses, RIDGE)
        moved = model.with_flat(moved.flat() - units * correction)
    return None


@dataclass(frozen=True)
class FlattestSettings:
    """One descent per seed; it has reached the bound if its trace is within `reached` of it.

    `reached` (relative) distinguishes a descent that continues from one stuck at kinks, some ten per cent
    above. `uneven` is the sine of an angle: at its minimum the trace is flat in the weights, so that weights
    within `reached` of the bound need not be closer to the form of Lemma G.3 than √`reached`.
    """

    length: int
    neurons: int
    steps: int
    seeds: tuple[int, ...]
    every: int = 5
    reached: float = 1e-3

    @property
    def uneven(self) -> float:
        """√`reached`."""
        return float(self.reached**0.5)


FULL = FlattestSettings(length=6, neurons=30, steps=200, seeds=(1, 2, 3, 4, 5))
SMOKE = FlattestSettings(length=4, neurons=12, steps=60, seeds=(1, 2))


def flattest_solution(settings: FlattestSettings, progress: Progress = silent) -> Statement:
    """Descend on the trace from random solutions and examine the end points.

    Raises IsolossError if random weights cannot be fitted: use another seed, or more neurons.
    """
    table = pl.concat(
        [
            _descended(settings, seed, part_of(progress, i, len(settings.seeds)))
            for i, seed in enumerate(settings.seeds)
        ]
    )
    return Statement(
        name="flattest-solution",
        title="Does lowering the trace lead to the two neurons that count brackets?",
        text=(
            "Random weights Q, K, V and u are fitted to predict every masked bracket, and then moved by "
            "conjugate gradients that lower the trace of the Hessian and nothing else. Each step is "
            "projected onto the tangent space of the zero-loss solutions and brought back to them by Newton "
            "corrections. An endpoint would contradict the paper if its trace were below the bound, or if "
            "its neurons did not count brackets."
        ),
        findings=descent_findings(table, settings.reached, settings.uneven),
        panels=(_panel(table),),
        settings=stated(settings),
    )


def descent_findings(table: pl.DataFrame, reached: float, uneven: float) -> tuple[Finding, ...]:
    """A row per accepted step: columns `seed`, `step`, `ratio` (trace over the bound) and `unevenness`."""
    ends = table.group_by("seed").agg(pl.col("ratio", "unevenness").sort_by("step").last())
    at_bound = ends.filter(pl.col("ratio") < 1 + reached)
    n, n_at_bound = len(ends), len(at_bound)
    least = float(ends["ratio"].to_numpy().min())
    farthest = float(at_bound["unevenness"].to_numpy().max(initial=0.0)) if n_at_bound else float("nan")
    at_end = "The flattest endpoint of the descents has the trace 4/(m √T) (ratio)."
    most = "Most descents end at the bound; the others get stuck at kinks of the ReLU (share of the former)."
    even = "Where a descent ends at the bound, every neuron reads all brackets equally (largest unevenness)."
    return (
        Finding(
            "least_descended_trace_over_bound", at_end, SOURCE, least, "equal to", 1.0, n=n, tolerance=reached
        ),
        Finding("share_of_descents_at_bound", most, SOURCE, n_at_bound / n, "at least", 0.5, n=n),
        Finding(
            "unevenness_at_bound", even, SOURCE, farthest, "equal to", 0.0, n=n_at_bound, tolerance=uneven
        ),
    )


def _descended(settings: FlattestSettings, seed: int, progress: Progress) -> pl.DataFrame:
    strings = masked_strings(settings.length)
    start = random_weights(strings, settings.neurons, torch.Generator().manual_seed(seed))
    descent = flattest_from(start, strings, settings.steps, progress)
    bound = corrected_bound(settings.neurons, settings.length)
    last = len(descent.models) - 1
    steps = sorted({*range(0, last + 1, settings.every), last})
    return pl.DataFrame(
        {
            "seed": [str(seed)] * len(steps),
            "step": steps,
            "ratio": [descent.traces[step] / bound for step in steps],
            "unevenness": [unevenness(descent.models[step]) for step in steps],
        }
    )


def _panel(table: pl.DataFrame) -> Panel:
    excess = table.with_columns(excess=(pl.col("ratio") - 1).clip(lower_bound=1e-12))
    step, seed = Axis("step", "step of the descent"), Colour("seed", "seed")
    return Panel(
        "descent",
        "Descents on the trace among solutions",
        "One line per start. Left: how far the trace is above the bound; right: how unevenly the neurons "
        "read.",
        (
            Lines(step, Axis("excess", "trace over 4/(m √T), less 1", logarithmic=True), seed, "seed"),
            Lines(step, Axis("unevenness", "unevenness of the neurons"), seed, "seed"),
        ),
        excess,
    )


ENTRY = Entry("flattest-solution", flattest_solution, FULL, SMOKE, seconds=100)
