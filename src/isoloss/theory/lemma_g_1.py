"""Lemma G.1: how flat a solution of Section 5 can be."""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl
import torch

from isoloss.panels import Axis, Categories, Colour, Lines, Panel
from isoloss.progress import Progress, part_of, silent
from isoloss.theory.finding import Entry, Finding, Statement, stated, vanishing
from isoloss.theory.flattest_solution import flattest_from
from isoloss.theory.one_layer_transformer import (
    BracketStrings,
    OneLayerTransformer,
    hessian_trace,
    masked_strings,
)
from isoloss.theory.zero_loss_solutions import (
    EqualityGaps,
    corrected_bound,
    equality_gaps,
    paper_bound,
    random_features,
    random_weights,
    rebalanced,
    trace_over_bound,
    two_neurons,
)

SOURCE = "Lemma G.1"


@dataclass(frozen=True)
class LemmaG1Settings:
    """`neurons` of random and of descended weights; the two-neuron solution among `flattest_neurons` of them.

    `tolerance` is relative: it covers float64 sums over all strings, and the loss of 1e-20 at which the
    descent's weights count as solutions, which moves their trace by about 1e-10.
    """

    length: int
    neurons: int
    feature_neurons: int
    flattest_neurons: tuple[int, ...]
    random_seeds: tuple[int, ...]
    adversary_seeds: tuple[int, ...]
    adversary_steps: int
    tolerance: float = 1e-8


FULL = LemmaG1Settings(
    length=6,
    neurons=30,
    feature_neurons=480,
    flattest_neurons=(2, 4, 8, 16, 32),
    random_seeds=tuple(range(1, 11)),
    adversary_seeds=(11, 12),
    adversary_steps=250,
)
SMOKE = LemmaG1Settings(
    length=4,
    neurons=12,
    feature_neurons=96,
    flattest_neurons=(2, 8),
    random_seeds=(1, 2),
    adversary_seeds=(3,),
    adversary_steps=40,
)


def lemma_g_1(settings: LemmaG1Settings, progress: Progress = silent) -> Statement:
    """Test the lower bound on random weights, on adversarial ones, and where it should be attained.

    Raises IsolossError if random weights cannot be fitted: use another seed, or more neurons.
    """
    strings = masked_strings(settings.length)
    found = pl.DataFrame(
        list(_solutions(settings, strings, progress)), schema=["kind", "seed", "ratio"], orient="row"
    )
    flattest = pl.DataFrame(
        [_flattest_row(neurons, strings) for neurons in settings.flattest_neurons],
        schema=["neurons", "trace", "corrected", "paper"],
        orient="row",
    )
    widest = two_neurons(settings.length, settings.flattest_neurons[-1])
    return Statement(
        name="lemma-g.1",
        title="Is no solution flatter than 4/(m √T)?",
        text=(
            "The trace of the loss's Hessian over Q, K, V and u is computed in closed form over the whole "
            "pre-training distribution. Solutions with random Q, K and V, solutions with random features, "
            "and the endpoints of descents on the trace alone would reveal a bound that is too high; the "
            "two-neuron solution shows whether the bound is attained."
        ),
        findings=bound_findings(found, flattest, equality_gaps(widest, strings), settings.tolerance),
        panels=(_bound_panel(flattest), _solutions_panel(found)),
        settings=stated(settings),
        corrections=(
            "The lemma states √(4/T). With f's factor 1/m and the second derivative 2 of the squared loss, "
            "its own chain of inequalities gives 4/(m √T): the same for m = 2, less for every larger m.",
            "The chain of inequalities counts a neuron with V_i h = 0 as firing (1[V_i h >= 0]), whereas its "
            "conditions for equality do not (V_i h > 0); see lemma-g.3 for the consequences.",
        ),
    )


def bound_findings(
    found: pl.DataFrame, flattest: pl.DataFrame, gaps: EqualityGaps, tolerance: float
) -> tuple[Finding, ...]:
    """That no solution in `found` (`ratio`: its trace over its bound) is flatter, and whether it is attained.

    `flattest` has the two-neuron solution's trace and both bounds, one row for each m, `gaps` what it leaves
    of the three conditions; 1e-9 is a thousand times their rounding error.
    """
    least, n = float(found["ratio"].to_numpy().min()), len(found)
    last = flattest.row(-1, named=True)
    off = (flattest["trace"] / flattest["corrected"] - 1).abs().to_list()
    paper, m = last["paper"], last["neurons"]
    printed = f"√(4/T) = {paper:.4g}, {paper / last['corrected']:.3g} times as large for m = {m}"
    none = "No solution found has a smaller trace than the bound, 4/(m √T) (smallest trace over the bound)."
    attained = "The two-neuron solution's trace is 4/(m √T) (largest relative difference over m)."
    too_high = f"For m = {m}, the two-neuron solution's trace is at least √(4/T), the bound as printed."
    equal = "The two-neuron solution meets conditions (3), (4) and (5) (largest violation)."
    return (
        Finding("least_trace_over_bound", none, SOURCE, least, "at least", 1.0, n=n, tolerance=tolerance),
        vanishing("flattest_trace_off_bound", attained, SOURCE, off, tolerance, paper=printed),
        Finding("paper_bound", too_high, SOURCE, last["trace"], "at least", paper, n=1, tolerance=tolerance),
        vanishing("equality_conditions_gap", equal, SOURCE, gaps, 1e-9),
    )


def _solutions(
    settings: LemmaG1Settings, strings: BracketStrings, progress: Progress
) -> Iterator[tuple[str, int, float]]:
    """Kind, seed and trace over the bound of every solution."""

    def weights(seed: int) -> OneLayerTransformer:
        generator = torch.Generator().manual_seed(seed)
        return random_weights(strings, settings.neurons, generator)

    parts = len(settings.random_seeds) + len(settings.adversary_seeds)
    for done, seed in enumerate(settings.random_seeds):
        yield "random weights", seed, trace_over_bound(weights(seed), strings)
        generator = torch.Generator().manual_seed(seed)
        features = random_features(strings, settings.feature_neurons, generator)
        yield "random features", seed, trace_over_bound(features, strings)
        yield "random features, balanced", seed, trace_over_bound(rebalanced(features, strings), strings)
        progress("fitting random weights", done + 1, parts)
    for done, seed in enumerate(settings.adversary_seeds, len(settings.random_seeds)):
        within = part_of(progress, done, parts)
        descent = flattest_from(weights(seed), strings, settings.adversary_steps, within)
        yield "end of a descent", seed, trace_over_bound(descent.end, strings)


def _flattest_row(neurons: int, strings: BracketStrings) -> tuple[int, float, float, float]:
    trace = float(hessian_trace(two_neurons(strings.length, neurons), strings))
    bounds = corrected_bound(neurons, strings.length), paper_bound(strings.length)
    return neurons, trace, *bounds


def _bound_panel(flattest: pl.DataFrame) -> Panel:
    names = {"trace": "two-neuron solution", "corrected": "4/(m √T)", "paper": "paper, √(4/T)"}
    data = flattest.unpivot(index="neurons", variable_name="series", value_name="value").with_columns(
        predicted=pl.col("series") != "trace", series=pl.col("series").replace(names)
    )
    x = Axis("neurons", "neurons m", logarithmic=True)
    y = Axis("value", "trace of the Hessian", logarithmic=True)
    return Panel(
        "bound",
        "The flattest solution and the two bounds",
        "Trace of the Hessian of the two-neuron solution among m neurons; dashed: the bounds.",
        (Lines(x, y, Colour("series", ""), series="series", predicted="predicted"),),
        data,
    )


def _solutions_panel(found: pl.DataFrame) -> Panel:
    ratio = Axis("ratio", "trace over 4/(m √T)", logarithmic=True)
    return Panel(
        "solutions",
        "How flat the solutions are",
        "Every dot is a solution that predicts all masked brackets; 1 is the bound 4/(m √T).",
        (Categories("kind", ratio, Colour("kind", "solution")),),
        found,
    )


ENTRY = Entry("lemma-g.1", lemma_g_1, FULL, SMOKE, seconds=50)
