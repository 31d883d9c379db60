"""Figure 12, computed: the encodings, and the hidden units of Section 5's two solutions."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.panels import Axis, Colour, Dots, Landscape, Panel
from isoloss.progress import Progress, silent
from isoloss.results.estimate import sample_mean
from isoloss.theory.finding import Entry, Finding, Statement, estimated, stated, vanishing
from isoloss.theory.one_layer_transformer import (
    BracketStrings,
    OneLayerTransformer,
    all_strings,
    masked_strings,
    zero_loss_trace,
)
from isoloss.theory.zero_loss_solutions import corrected_bound, random_features, two_neurons

SOURCE = "Figure 12"
SHARE_OF_CHANCE = 0.25
"""Tolerance for a sampled unit, as a share of chance: small, since a counting unit has T times chance."""
MASKED_PLACE = 2
"""The index, from 0, of the string that is drawn."""


@dataclass(frozen=True)
class HiddenUnitsSettings:
    """Both solutions have `neurons` hidden units, of which the first `shown` are drawn.

    `flatter`: the least ratio of the traces that counts as “much flatter”.
    """

    length: int
    neurons: int
    shown: int
    seed: int
    flatter: float = 10.0


FULL = HiddenUnitsSettings(length=6, neurons=480, shown=12, seed=1)
SMOKE = HiddenUnitsSettings(length=4, neurons=120, shown=6, seed=1)


def hidden_units(settings: HiddenUnitsSettings, progress: Progress = silent) -> Statement:
    """Both solutions, what each hidden unit explains of the downstream target, and their traces.

    Raises BadInput for fewer neurons than masked strings, and for fewer than are to be shown.
    """
    if settings.neurons < settings.shown:
        raise BadInput(f"{settings.shown} of {settings.neurons} neurons cannot be shown; give more neurons")
    strings, downstream = masked_strings(settings.length), all_strings(settings.length)
    generator = torch.Generator().manual_seed(settings.seed)
    solutions = {
        COUNTING: two_neurons(settings.length, settings.neurons),
        SAMPLED: random_features(strings, settings.neurons, generator),
    }
    progress("hidden units", 1, 1)
    of_units = [squared_correlations(model, downstream) for model in solutions.values()]
    return Statement(
        name="hidden-units",
        title="Two solutions of one loss: two units that count brackets, and many sampled ones",
        text=(
            f"Strings of T = {settings.length} brackets. Solution (1) has two hidden units that read all "
            "brackets alike; solution (2) has sampled units and a fitted last layer. Both predict every "
            "masked bracket. Over all unmasked strings, a unit's squared correlation with the downstream "
            "target g* is 1 for a unit that counts and 1/T on average for one with a random direction. It "
            "would fail if a solution missed a bracket, if a counting unit carried less than all of g*, if "
            "sampled units carried more of it than chance, or if the traces were alike."
        ),
        findings=(
            *solution_findings(settings, strings, solutions),
            *unit_findings(settings.length, *of_units),
        ),
        panels=(
            _encodings(strings, settings.length),
            _weights("solution-1", "Solution (1)", solutions[COUNTING], settings.shown),
            _weights("solution-2", "Solution (2)", solutions[SAMPLED], settings.shown),
            _transfer(solutions, downstream),
        ),
        settings=stated(settings),
        corrections=(
            "The caption says that the attention sums the encodings. Attention weights add up to 1, so "
            "uniform attention takes their mean, z/T, and the weights of the model make up for it.",
        ),
    )


def squared_correlations(model: OneLayerTransformer, strings: BracketStrings) -> Float[Tensor, " k"]:
    """For each of the k units with weights, the share of g*'s variance over the strings linear in V_i h.

    >>> squared_correlations(two_neurons(4), all_strings(4)).tolist()
    [1.0, 1.0]
    """
    living = model.value.abs().sum(1) > 0
    before = model.preactivations(model.attended(strings.tokens))[:, living]
    before = before - strings.probability @ before
    target = strings.target - strings.mean(strings.target)
    shared = (strings.probability * target) @ before
    return shared.square() / (strings.probability @ before.square() * strings.mean(target.square()))


Solutions = Mapping[str, OneLayerTransformer]
COUNTING, SAMPLED = "solution (1)", "solution (2)"


def solution_findings(
    settings: HiddenUnitsSettings, strings: BracketStrings, solutions: Solutions
) -> tuple[Finding, ...]:
    """Both predict every masked bracket, and only one is as flat as possible."""
    least = corrected_bound(settings.neurons, settings.length)
    traces = {name: float(zero_loss_trace(model, strings)) for name, model in solutions.items()}
    counting, ratio = traces[COUNTING], traces[SAMPLED] / traces[COUNTING]
    flattest = "Solution (1) has the trace 4/(m √T), the smallest possible."
    flatter = "Solution (1) is much flatter than solution (2), which has as many units (ratio of the traces)."
    name, tolerance = "trace, solution (1)", 1e-9 * least
    return (
        *(_fit_finding(name, model, strings) for name, model in solutions.items()),
        Finding(name, flattest, SOURCE, counting, "equal to", least, n=1, tolerance=tolerance),
        Finding("ratio of the traces", flatter, SOURCE, ratio, "at least", settings.flatter, n=1),
    )


def _fit_finding(name: str, model: OneLayerTransformer, strings: BracketStrings) -> Finding:
    sentence = f"{name.capitalize()} predicts the bracket of every masked string (largest error)."
    misses = (model.outputs(strings.tokens) - strings.target).abs().tolist()
    return vanishing(f"farthest output, {name}", sentence, SOURCE, misses, 1e-6)


def unit_findings(
    length: int, of_counting: Float[Tensor, " j"], of_sampled: Float[Tensor, " k"]
) -> tuple[Finding, Finding]:
    """What single units explain of g*, where a random direction explains 1/T on average."""
    chance, name, least = 1 / length, "told by a unit of", float(of_counting.min())
    active = "An active unit of solution (1) determines g* on unmasked strings (squared correlation)."
    random = "A sampled unit tells as much of g* as a random direction, 1/T (squared correlation)."
    shared, n, off = sample_mean(of_sampled), len(of_counting), SHARE_OF_CHANCE * chance
    return (
        Finding(f"{name} {COUNTING}", active, SOURCE, least, "equal to", 1.0, n=n, tolerance=1e-9),
        estimated(f"{name} {SAMPLED}", random, SOURCE, shared, "equal to", chance, tolerance=off),
    )


def _encodings(strings: BracketStrings, length: int) -> Panel:
    tokens = strings.tokens[2 * MASKED_PLACE]
    columns = torch.cat([tokens, tokens.sum(0, keepdim=True)])
    return _heights(
        "encodings",
        f"Encodings of a string of {length} (Figure 12, left), computed",
        f"One column per bracket, masked at position {MASKED_PLACE + 1}: 1 at its position for ⟨, -1 for ⟩, "
        f"and in the second half of the coordinates (from {length + 1} on) for a mask. The last column is z, "
        "their sum.",
        columns,
        (Axis("column", "place in the string; then z"), Axis("coordinate", "coordinate")),
    )


def _weights(name: str, title: str, model: OneLayerTransformer, shown: int) -> Panel:
    return _heights(
        name,
        f"{title}: its hidden units' weights",
        f"The first {shown} of {model.neurons} units: the row V_i of each, which reads z/T.",
        model.value[:shown],
        (Axis("column", "hidden unit"), Axis("coordinate", "coordinate")),
    )


def _heights(
    name: str, title: str, caption: str, columns: Float[Tensor, "a d"], axes: tuple[Axis, Axis]
) -> Panel:
    across, down = (side.ravel() + 1 for side in np.indices(columns.shape))
    data = pl.DataFrame(
        {
            "column": across,
            "coordinate": down,
            "height": columns.flatten().numpy(),
            "series": ["value"] * columns.numel(),
        }
    )
    chart = Landscape(*axes, Axis("height", "value"), Colour("series", "value"))
    return Panel(name, title, caption, (chart,), data)


def _transfer(solutions: Solutions, strings: BracketStrings) -> Panel:
    rows = []
    for name, model in solutions.items():
        units = model.features(strings.tokens)[:, :2]
        units = units / units.amax(0).clamp(min=torch.finfo(units.dtype).tiny)
        for unit in range(2):
            rows += [
                (target, value, f"{name}, unit {unit + 1}")
                for target, value in zip(strings.target.tolist(), units[:, unit].tolist(), strict=True)
            ]
    value = Axis("value", "σ(V_i h) over its largest")
    return Panel(
        "transfer",
        "Outputs of two units of each solution on unmasked strings",
        "One dot per string. Horizontal: the downstream target g*; vertical: the unit's output over its "
        "largest.",
        (Dots(Axis("target", "g*"), value, Colour("unit", "unit")),),
        pl.DataFrame(rows, ["target", "value", "unit"], orient="row"),
    )


ENTRY = Entry("hidden-units", hidden_units, FULL, SMOKE, seconds=2)
