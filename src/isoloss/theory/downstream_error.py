"""Section 5's flattest and random-feature solutions: downstream error after n strings."""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.panels import Axis, Colour, Lines, Panel
from isoloss.progress import Progress, silent
from isoloss.results.estimate import paired_difference, sample_mean
from isoloss.theory.finding import Entry, Finding, Statement, estimated, stated
from isoloss.theory.one_layer_transformer import BracketStrings, all_strings, masked_strings
from isoloss.theory.theorem_5_1 import balanced_share, population_losses, refitted_outputs
from isoloss.theory.zero_loss_solutions import random_features, split_neurons, two_neurons

SOURCE = "Section 5, Theorem 5.1"
FLATTEST, SPLIT, RANDOM = "two neurons", "split neurons", "random features"


@dataclass(frozen=True)
class DownstreamErrorSettings:
    """Errors are averaged over `repetitions` samples of each size; findings are for `compared` strings.

    `tolerance` is a share of the error expected, which would be half of it if the output layer failed for one
    sign only, and twice or more with another probability of failure.
    """

    length: int
    wide: int
    samples: tuple[int, ...]
    compared: int
    repetitions: int
    seed: int
    tolerance: float = 1 / 3


FULL = DownstreamErrorSettings(8, 2, (1, 2, 4, 8, 16, 32, 64), compared=4, repetitions=400, seed=1)
SMOKE = DownstreamErrorSettings(4, 4, (1, 4), compared=4, repetitions=400, seed=1)


def downstream_error(settings: DownstreamErrorSettings, progress: Progress = silent) -> Statement:
    """Refit the output layer of each solution to n strings, as in Theorem 5.1, and compute its error."""
    losses = dict(_losses(settings, progress))
    return Statement(
        name="downstream-error",
        title="Does the flattest solution transfer from fewer strings than random features?",
        text=(
            "Solutions with the same pre-training loss, zero, are refitted on the downstream task: the "
            "features are frozen, and the minimum-norm output layer that fits n random strings is taken. Its "
            "squared error is computed over all 2^T strings, with the same samples for every solution."
        ),
        findings=error_findings(settings, losses),
        panels=(_panel(settings, losses),),
        settings=stated(settings),
    )


def expected_flattest_error(length: int, samples: int) -> float:
    """T ((1 + P0)/2)^n: T/2 for either sign of g* that no string has, and T for both.

    >>> expected_flattest_error(4, 1)
    2.75
    """
    return length * ((1 + float(balanced_share(length))) / 2) ** samples


Losses = dict[tuple[str, int], Float[Tensor, " r"]]
"""For a solution and a number of strings, the error after each sample."""


def error_findings(settings: DownstreamErrorSettings, losses: Losses) -> tuple[Finding, Finding]:
    """The flattest solution's error against its expectation, and against that of random features."""
    n, unit = settings.compared, "brackets squared"
    expected = expected_flattest_error(settings.length, n)
    flattest = f"After {n} strings, the flattest solution's mean squared error is T ((1 + P0)/2)^n."
    larger = f"After {n} strings, the squared error of random features is larger (mean difference)."
    errors, more = sample_mean(losses[FLATTEST, n]), paired_difference(losses[RANDOM, n], losses[FLATTEST, n])
    name, tolerance = "flattest_downstream_error", settings.tolerance * expected
    other = "random_features_less_flattest_error"
    return (
        estimated(name, flattest, SOURCE, errors, "equal to", expected, unit=unit, tolerance=tolerance),
        estimated(other, larger, SOURCE, more, "at least", 0.0, unit=unit),
    )


def _losses(
    settings: DownstreamErrorSettings, progress: Progress
) -> Iterator[tuple[tuple[str, int], Float[Tensor, " r"]]]:
    strings = all_strings(settings.length)
    generator = torch.Generator().manual_seed(settings.seed)
    features = _features(settings, strings, generator)
    for done, n in enumerate(settings.samples):
        drawn = torch.randint(len(strings), (settings.repetitions, n), generator=generator)
        for name, values in features.items():
            yield (name, n), population_losses(refitted_outputs(values, strings.target, drawn), strings)
        progress("refitting output layers", done + 1, len(settings.samples))


def _features(
    settings: DownstreamErrorSettings, strings: BracketStrings, generator: torch.Generator
) -> dict[str, Float[Tensor, "s m"]]:
    masked = masked_strings(settings.length)
    many = random_features(masked, settings.wide * len(masked), generator).features(strings.tokens)
    return {
        FLATTEST: two_neurons(settings.length).features(strings.tokens),
        SPLIT: split_neurons(settings.length).features(strings.tokens),
        # Rotated into as many dimensions as there are strings, which does not affect the minimum-norm layer.
        RANDOM: torch.linalg.qr(many.T, mode="r").R.T,
    }


def _panel(settings: DownstreamErrorSettings, losses: Losses) -> Panel:
    means = [(name, n, sample_mean(values)) for (name, n), values in losses.items()]
    rows = [(name, n, mean.value, mean.standard_error) for name, n, mean in means]
    x = Axis("samples", "downstream strings n", logarithmic=True)
    y = Axis("error", "mean squared error, brackets squared", error="standard_error")
    return Panel(
        "error",
        "Downstream error after n strings",
        f"Mean over {settings.repetitions} samples and its standard error; split neurons are as flat as "
        "two if the ReLU's derivative at 0 is taken as 0 (lemma-g.3).",
        (Lines(x, y, Colour("solution", "solution"), series="solution"),),
        pl.DataFrame(rows, ["solution", "samples", "error", "standard_error"], orient="row"),
    )


ENTRY = Entry("downstream-error", downstream_error, FULL, SMOKE, seconds=10)
