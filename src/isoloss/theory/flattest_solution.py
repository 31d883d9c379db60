"""Section 5's main claim: lowering the trace alone leads to the two neurons that count brackets."""

from dataclasses import dataclass

import polars as pl
import torch

from isoloss.panels import Axis, Colour, Lines, Panel
from isoloss.progress import Progress, part_of, silent
from isoloss.theory.bracket_strings import masked_strings
from isoloss.theory.finding import Entry, Finding, Statement, stated
from isoloss.theory.flattest_descent import flattest_from, random_weights
from isoloss.theory.zero_loss_solutions import SCORE_SIZE, corrected_bound, unevenness

SOURCE = "Theorem 5.1, Lemma G.3"


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
    return (
        Finding(
            name="least_descended_trace_over_bound",
            sentence="The flattest end of a descent has the trace 4/(m √T).",
            source=SOURCE,
            predicted=1.0,
            relation="equal to",
            measured=float(ends["ratio"].to_numpy().min()),
            n=len(ends),
            tolerance=reached,
        ),
        Finding(
            name="share_of_descents_at_bound",
            sentence="Most descents end at the bound; the others get stuck at kinks of the ReLU.",
            source=SOURCE,
            predicted=0.5,
            relation="at least",
            measured=len(at_bound) / len(ends),
            n=len(ends),
            tolerance=0.0,
        ),
        Finding(
            name="unevenness_at_bound",
            sentence="Where a descent ends at the bound, every neuron reads all brackets equally.",
            source=SOURCE,
            predicted=0.0,
            relation="equal to",
            measured=float(at_bound["unevenness"].to_numpy().max(initial=0.0))
            if len(at_bound)
            else float("nan"),
            n=len(at_bound),
            tolerance=uneven,
        ),
    )


def _descended(settings: FlattestSettings, seed: int, progress: Progress) -> pl.DataFrame:
    strings = masked_strings(settings.length)
    generator = torch.Generator().manual_seed(seed)
    start = random_weights(strings, settings.neurons, SCORE_SIZE, generator)
    descent = flattest_from(start, strings, settings.steps, progress)
    bound = corrected_bound(settings.neurons, settings.length)
    last = len(descent.models) - 1
    kept = sorted({*range(0, last + 1, settings.every), last})
    return pl.DataFrame(
        {
            "seed": [str(seed)] * len(kept),
            "step": kept,
            "ratio": [descent.traces[step] / bound for step in kept],
            "unevenness": [unevenness(descent.models[step]) for step in kept],
        }
    )


def _panel(table: pl.DataFrame) -> Panel:
    excess = table.with_columns(excess=(pl.col("ratio") - 1).clip(lower_bound=1e-12))
    step, seed = Axis("step", "step of the descent"), Colour("seed", "seed")
    return Panel(
        name="descent",
        title="Descents on the trace among solutions",
        caption=(
            "One line per start. Left: how far the trace is above the bound; right: how unevenly the neurons "
            "read."
        ),
        charts=(
            Lines(step, Axis("excess", "trace over 4/(m √T), less 1", logarithmic=True), seed, "seed"),
            Lines(step, Axis("unevenness", "unevenness of the neurons"), seed, "seed"),
        ),
        data=excess,
    )


ENTRY = Entry("flattest-solution", flattest_solution, FULL, SMOKE, seconds=100)
