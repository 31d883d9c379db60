"""Fact G.2: without cancellation, neurons of one sign fire on one target alone, and each somewhere."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
from jaxtyping import Float
from scipy.spatial import ConvexHull
from torch import Tensor

from isoloss.panels import Axis, Colour, Lines, Panel
from isoloss.progress import Progress, silent
from isoloss.theory.finding import Entry, Finding, Statement, stated
from isoloss.theory.one_layer_transformer import BracketStrings, OneLayerTransformer, masked_strings
from isoloss.theory.zero_loss_solutions import random_features, split_neurons, two_neurons

SOURCE = "Fact G.2"
SMALLEST_REACH = 1e-9
"""Of what is not zero, thousands of times the rounding error."""


@dataclass(frozen=True)
class FactG2Settings:
    """Part (1) on strings of `length`; part (2) of every direction for `hull_length`, of T up to `longest`
    by the rank of the inputs and their symmetry. `wide` neurons a string in the solution that cancels.
    """

    length: int
    hull_length: int
    longest: int
    wide: int
    seed: int


FULL = FactG2Settings(length=8, hull_length=4, longest=10, wide=2, seed=1)
SMOKE = FactG2Settings(length=4, hull_length=4, longest=6, wide=2, seed=1)


def fact_g_2(settings: FactG2Settings, progress: Progress = silent) -> Statement:
    """Test both parts, and part (1) without the condition that it rests on."""
    strings = masked_strings(settings.length)
    generator = torch.Generator().manual_seed(settings.seed)
    solutions = (two_neurons(settings.length), split_neurons(settings.length))
    cancelling = random_features(strings, settings.wide * len(strings), generator)
    lengths = range(4, settings.longest + 1, 2)
    progress("neurons that fire", 1, 1)
    return Statement(
        name="fact-g.2",
        title="Do neurons of the flattest solutions fire on one target alone, and each on some input?",
        text=(
            "(1) In solutions that attain the bound of Lemma G.1, an input of target 1 makes no neuron fire "
            "whose output weight is negative, and the other way round: counted over all masked strings, and "
            "for comparison in a solution whose neurons cancel. (2) Every neuron that is not 0 fires on some "
            "input: the inputs h span all of R^2T and come in pairs ±h, so that no direction v has vᵀh <= 0 "
            "for all. The least of max vᵀh over all unit vectors v is the distance from 0 to the nearest "
            f"facet of the inputs' convex hull, computed for T = {settings.hull_length}. It would fail if a "
            "direction were left on which nothing fires."
        ),
        findings=(
            *firing_findings(solutions, cancelling, strings),
            *input_findings(lengths, settings.hull_length),
        ),
        panels=(_panel(lengths),),
        settings=stated(settings),
    )


def fired_on_the_wrong_target(model: OneLayerTransformer, strings: BracketStrings) -> float:
    """The probability that a string makes a neuron fire whose output weight has not the target's sign."""
    fires = model.features(strings.tokens) > 0
    wrong = model.output.sign() * strings.target.sign()[:, None] < 0
    return float(strings.probability @ (fires & wrong).any(1).double())


def firing_findings(
    solutions: Sequence[OneLayerTransformer], cancelling: OneLayerTransformer, strings: BracketStrings
) -> tuple[Finding, Finding]:
    """Part (1): none fires in solutions that meet the conditions; zero loss alone does not give that."""
    name, n = "fired_on_the_wrong_target", len(strings)
    none = "(1) Where the bound is attained, no neuron fires on an input of the other sign (share that does)."
    some = "(1) needs equation (4): in a solution of random neurons, inputs do fire others (share that does)."
    most = max(fired_on_the_wrong_target(model, strings) for model in solutions)
    other = fired_on_the_wrong_target(cancelling, strings)
    return (
        Finding(name, none, SOURCE, most, "equal to", 0.0, n=len(solutions) * n),
        Finding(f"{name}_if_neurons_cancel", some, SOURCE, other, "at least", 0.5, n=n),
    )


def input_findings(lengths: Sequence[int], hull_length: int) -> tuple[Finding, ...]:
    """Part (2): the rank of the inputs, whose symmetry is the distribution's, and every direction at once."""
    findings = []
    for length in lengths:
        name, inputs = f"dimensions_of_the_inputs_{length}", mean_inputs(length)
        sentence = (
            f"(2) The inputs h come in pairs ±h and span all 2T dimensions, T = {length} "
            "(rank; 0 if not in pairs)."
        )
        rank = float(torch.linalg.matrix_rank(inputs)) if in_pairs(inputs) else 0.0
        findings.append(Finding(name, sentence, SOURCE, rank, "equal to", 2.0 * length, n=len(inputs)))
    name, inputs = "least_largest_input", mean_inputs(hull_length)
    sentence = (
        f"(2) Every neuron fires on some input, T = {hull_length} (largest vᵀh, for the unit vector v "
        "where it is least)."
    )
    reach, n = least_reach(inputs), len(inputs)
    return *findings, Finding(name, sentence, SOURCE, reach, "at least", SMALLEST_REACH, n=n)


def mean_inputs(length: int) -> Float[Tensor, "n d"]:
    """h = (1/T) Σ x_j of every masked string, each once."""
    return _each_once(masked_strings(length).tokens.mean(1))


def in_pairs(inputs: Float[Tensor, "n d"]) -> bool:
    """Whether -h is among the inputs with every h."""
    return torch.equal(_each_once(0.0 - inputs), _each_once(inputs))


def _each_once(rows: Float[Tensor, "n d"]) -> Float[Tensor, "k d"]:
    return torch.from_numpy(np.unique(rows.numpy(), axis=0))


def least_reach(inputs: Float[Tensor, "n d"]) -> float:
    """min over unit v of max_h vᵀh: the distance from 0 to the nearest facet of the convex hull (qhull).

    >>> square = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)
    >>> round(least_reach(square), 12)
    1.0
    """
    # Facets are n · x + offset <= 0 with unit normals n.
    offsets = ConvexHull(inputs.numpy()).equations[:, -1]
    return float(np.min(-offsets))


def _panel(lengths: Sequence[int]) -> Panel:
    rows = [(length, int(torch.linalg.matrix_rank(mean_inputs(length))), "inputs h") for length in lengths]
    rows += [(length, 2 * length, "2T") for length in lengths]
    x, y = Axis("length", "brackets T"), Axis("rank", "dimensions")
    return Panel(
        "span",
        "Dimensions that the inputs span",
        "The rank of all inputs h, and the number of coordinates, 2T.",
        (Lines(x, y, Colour("series", "of"), series="series"),),
        pl.DataFrame(rows, ["length", "rank", "series"], orient="row"),
    )


ENTRY = Entry("fact-g.2", fact_g_2, FULL, SMOKE, seconds=5)
