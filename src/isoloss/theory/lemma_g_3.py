"""Lemma G.3: what the neurons of the flattest solutions of Section 5 look like."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch

from isoloss.panels import Axis, Categories, Colour, Panel
from isoloss.progress import Progress, silent
from isoloss.theory.finding import Entry, Finding, Statement, stated
from isoloss.theory.one_layer_transformer import (
    BracketStrings,
    OneLayerTransformer,
    hessian_trace,
    masked_strings,
)
from isoloss.theory.zero_loss_solutions import (
    corrected_bound,
    equality_gaps,
    split_neurons,
    two_neurons,
    unevenness,
)

SOURCE = "Lemma G.3"


@dataclass(frozen=True)
class LemmaG3Settings:
    """`nudges` random moves of relative size `nudge` of the solutions, whose traces are then computed.

    `nudge` is far above rounding (1e-16) and so small that the loss it causes, about its square, changes no
    trace by as much as `tolerance`, which distinguishes 1 from 3/2.
    """

    length: int
    longest: int
    nudges: int
    seed: int
    nudge: float = 1e-5
    tolerance: float = 1e-3


FULL = LemmaG3Settings(length=8, longest=10, nudges=50, seed=1)
SMOKE = LemmaG3Settings(length=6, longest=6, nudges=5, seed=1)


def lemma_g_3(settings: LemmaG3Settings, progress: Progress = silent) -> Statement:
    """Test the form of the neurons: as printed, with a counterexample, and where it holds."""
    strings = masked_strings(settings.length)
    split = split_neurons(settings.length)
    progress("nudging the solutions", 0, 1)
    nudged = pl.DataFrame(
        list(_nudged(settings, strings)), schema=["solution", "nudged", "ratio"], orient="row"
    )
    progress("nudging the solutions", 1, 1)
    return Statement(
        name="lemma-g.3",
        title="Do the flattest neurons count brackets?",
        text=(
            "Lemma G.3 says that weights which attain the bound of Lemma G.1 have neurons c 1_T on the "
            "brackets. A solution is constructed that meets conditions (3) to (5) but is not of this form: "
            "each of its neurons is at the kink V_i h = 0 of the ReLU on some masked strings. Where no "
            "neuron is at a kink, the lemma is a statement about a linear system, whose rank is computed. "
            "The trace close to the kinks is measured by perturbing the weights."
        ),
        findings=(
            *counterexample_findings(split, strings),
            *(rank_finding(length) for length in range(6, settings.longest + 1, 2)),
            *nudged_findings(nudged, settings.tolerance),
        ),
        panels=(_panel(nudged),),
        settings=stated(settings),
        corrections=(
            "The proof assumes that a neuron cannot be c on some strings of one target and 0 on the others "
            "when T >= 6. It can: c/2 (1_T ± e_i; ±e_i) is such a neuron, for every i, and two such neurons "
            "complement each other. With the ReLU's derivative at 0 taken as 0 they attain the bound, so the "
            "lemma and the uniqueness behind Theorem 5.1 fail as printed.",
            "They hold where the loss is twice differentiable, that is, where V_i h is nowhere 0: next to "
            "the kinks the split solution's trace is half as large again, since one of each masked string "
            "and its mirror image makes the silent neuron fire.",
        ),
    )


def counterexample_findings(model: OneLayerTransformer, strings: BracketStrings) -> tuple[Finding, Finding]:
    """Whether `model` attains the bound and its conditions, and whether its neurons are then even.

    1e-9 is a thousand times the rounding error; 1e-3 is the sine of an angle that no rounding produces.
    """
    ratio = float(hessian_trace(model, strings)) / corrected_bound(model.neurons, strings.length)
    gaps = [abs(ratio - 1), *equality_gaps(model, strings)]
    attained = "With derivative 0 at kinks, split neurons attain the bound and meet (3) to (5) (largest gap)."
    even = (
        "As printed: weights that meet the conditions read all brackets evenly, even at kinks (unevenness)."
    )
    apart, worst = unevenness(model), float(np.max(gaps))
    name, n, source = "split_neurons_off_bound", len(strings), "Lemma G.1"
    uneven = "unevenness_of_a_solution_at_the_bound"
    return (
        Finding(name, attained, source, worst, "equal to", 0.0, n=n, tolerance=1e-9),
        Finding(uneven, even, SOURCE, apart, "equal to", 0.0, n=model.neurons, tolerance=1e-3),
    )


def rank_finding(length: int) -> Finding:
    """Whether V_i h = c on every masked string of one target, the case without kinks, has one solution V_i.

    Without kinks, a neuron that fires on one string of a target fires on all: if V_i h < 0, it fires on the
    mirror image -h, of the other target, and cancels. By condition (3) it then has the same value on all.
    """
    strings = masked_strings(length)
    sums = strings.tokens[strings.target == -1].sum(1)
    # Of integers: the Gram matrix is exact in float64, and small.
    rank = float(torch.linalg.matrix_rank(sums.T @ sums, hermitian=True))
    name = f"rank_of_masked_strings_{length}"
    sentence = (
        f"Without kinks, neurons can only be c (1_T; 0), T = {length} "
        "(rank of the strings, which must be 2T)."
    )
    source = f"{SOURCE}, Lemma G.5"
    return Finding(name, sentence, source, rank, "equal to", 2.0 * length, n=length)


def nudged_findings(nudged: pl.DataFrame, tolerance: float) -> tuple[Finding, ...]:
    """Traces over the bound right next to both solutions: columns `solution`, `nudged`, `ratio`.

    What is told of each is the ratio that is furthest from the one predicted.
    """
    two = "Next to the two-neuron solution, which has no kinks, the trace equals the bound (ratio)."
    split = (
        "Next to the split solution, whose flatness comes from kinks, the trace is 3/2 of the bound (ratio)."
    )
    findings = []
    for solution, sentence, predicted in (("two neurons", two, 1.0), ("split neurons", split, 1.5)):
        ratios = nudged.filter("nudged", solution=solution)["ratio"].to_numpy()
        farthest = float(ratios[np.abs(ratios - predicted).argmax()])
        name, n = f"trace_beside_{solution.replace(' ', '_')}", len(ratios)
        findings.append(
            Finding(name, sentence, SOURCE, farthest, "equal to", predicted, n=n, tolerance=tolerance)
        )
    return tuple(findings)


def _nudged(settings: LemmaG3Settings, strings: BracketStrings) -> Iterator[tuple[str, bool, float]]:
    """Solution, whether it was moved, and the trace of its Hessian over the bound."""
    generator = torch.Generator().manual_seed(settings.seed)
    for name, model in (
        ("two neurons", two_neurons(settings.length)),
        ("split neurons", split_neurons(settings.length)),
    ):
        bound = corrected_bound(model.neurons, settings.length)
        yield name, False, float(hessian_trace(model, strings)) / bound
        flat = model.flat()
        for _ in range(settings.nudges):
            noise = torch.randn(flat.shape, generator=generator, dtype=torch.float64)
            # Q and K stay 0: their contribution is of second order, and not due to kinks.
            noise[: 2 * model.query.numel()] = 0
            moved = model.with_flat(flat + settings.nudge * flat.abs().max() * noise)
            yield name, True, float(hessian_trace(moved, strings)) / bound


def _panel(nudged: pl.DataFrame) -> Panel:
    data = nudged.with_columns(
        case=pl.col("solution") + pl.when("nudged").then(pl.lit(", nudged")).otherwise(pl.lit(""))
    )
    ratio = Axis("ratio", "trace over 4/(m √T)")
    return Panel(
        "kinks",
        "Two solutions at the bound, and their immediate neighbourhood",
        "Trace over 4/(m √T), with the ReLU's derivative at 0 taken as 0, and after perturbations of 1e-5.",
        (Categories("case", ratio, Colour("solution", "solution")),),
        data,
    )


ENTRY = Entry("lemma-g.3", lemma_g_3, FULL, SMOKE, seconds=5)
