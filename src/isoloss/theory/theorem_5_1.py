"""Theorem 5.1: how many downstream strings the flattest solution needs."""

from dataclasses import dataclass

import polars as pl

from isoloss.panels import Axis, Colour, Lines, Panel
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate
from isoloss.theory.failure_probability import (
    balanced_share,
    corrected_failure,
    counted_failure,
    paper_failure,
    refuse_impossible,
    simulated_failure,
)
from isoloss.theory.finding import Entry, Finding, Statement, stated
from isoloss.theory.zero_loss_solutions import split_neurons, two_neurons

SOURCE = "Theorem 5.1"


@dataclass(frozen=True)
class Theorem51Settings:
    """Findings are for `samples` strings of `length` brackets, the curve for 1 to `longest_curve` strings."""

    length: int
    samples: int
    longest_curve: int
    repetitions: int
    seed: int

    def __post_init__(self) -> None:
        refuse_impossible(self.length, self.samples)
        refuse_impossible(self.length, self.longest_curve)

    @property
    def tolerance(self) -> float:
        """Four of the largest standard errors that a share of `repetitions` can have, 1 / (2 √r)."""
        return float(2 / self.repetitions**0.5)


FULL = Theorem51Settings(length=10, samples=8, longest_curve=16, repetitions=10_000, seed=1)
SMOKE = Theorem51Settings(length=6, samples=4, longest_curve=6, repetitions=500, seed=1)


def theorem_5_1(settings: Theorem51Settings, progress: Progress = silent) -> Statement:
    """Test the theorem's probability: counted, corrected, simulated, and as printed.

    Raises what the settings raise.
    """
    length, samples = settings.length, settings.samples
    counted = counted_failure(length, samples)
    curve = _curve(settings, progress)
    simulated = simulated_failure(two_neurons(length), samples, settings.repetitions, settings.seed)
    printed = paper_failure(length, samples)
    return Statement(
        name="theorem-5.1",
        title="Does the flattest solution learn the downstream task from a few strings?",
        text=(
            "On the features of the flattest solution, the minimum-norm output layer that fits n downstream "
            "strings is the right one exactly when the strings include both signs of g*. How often that "
            "fails is counted over all samples in whole numbers, given by a formula, and simulated: strings "
            "are drawn, the layer is fitted, and its loss is computed over the whole downstream "
            "distribution. The paper's 2^-n counts strings on which g* is zero as informative, and takes one "
            "sign to be enough."
        ),
        findings=failure_findings(settings, counted, corrected_failure(length, samples), printed, simulated),
        panels=(_panel(curve),),
        settings=stated(settings),
        corrections=(
            "Unmasked strings of even length have even g*, which is zero with probability P0 = C(T, T/2) / "
            f"2^T ({float(balanced_share(length)):.4g} for T = {length}), and both signs must appear: the "
            "probability of failure is 2((1 + P0)/2)^n - P0^n, larger than the theorem's 2^-n.",
            "The theorem's proof relies on Lemma G.3, which does not cover neurons at the kink of the ReLU "
            "on some masked strings (see lemma-g.3): with derivative 0 there, such a solution is equally "
            "flat, and two strings, for example, are never enough for it (the split neurons in the chart).",
        ),
    )


def failure_findings(
    settings: Theorem51Settings, counted: float, formula: float, printed: float, simulated: Estimate
) -> tuple[Finding, ...]:
    """The exact count against a formula, the simulation against the count, and the paper's against it."""
    n, sizes = settings.samples, f"{settings.samples} strings of {settings.length} brackets"
    paper = f"2^-{n} = {printed:.4g}"
    return (
        Finding(
            name="failure_probability_exact",
            sentence=f"The count over all samples of {sizes} is 2((1 + P0)/2)^n - P0^n.",
            source=SOURCE,
            predicted=formula,
            relation="equal to",
            measured=counted,
            n=n,
            tolerance=1e-12,
            paper=paper,
        ),
        Finding(
            name="failure_probability_simulated",
            sentence=f"Refitting the flattest solution on {sizes} fails as often as counted.",
            source=SOURCE,
            predicted=counted,
            relation="equal to",
            measured=simulated.value,
            standard_error=simulated.standard_error,
            n=simulated.n,
            tolerance=settings.tolerance,
            paper=paper,
        ),
        Finding(
            name="failure_probability_paper",
            sentence=f"The paper's 2^-n is at least the probability of failure, for {sizes}.",
            source=SOURCE,
            predicted=counted,
            relation="at least",
            measured=printed,
            n=n,
            tolerance=1e-12,
            paper=paper,
        ),
    )


def _curve(settings: Theorem51Settings, progress: Progress) -> pl.DataFrame:
    length, rows = settings.length, []
    models = {
        "simulated, two neurons": two_neurons(length),
        "simulated, split neurons": split_neurons(length),
    }
    formulas = {"exact": counted_failure, "paper, 2^-n": paper_failure}
    for n in range(1, settings.longest_curve + 1):
        for name, formula in formulas.items():
            rows.append((name, n, formula(length, n), 0.0, True))
        for name, model in models.items():
            found = simulated_failure(model, n, settings.repetitions, settings.seed)
            rows.append((name, n, found.value, found.standard_error, False))
        progress("Failures against the number of strings", n, settings.longest_curve)
    columns = ["series", "samples", "failure", "standard_error", "formula"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def _panel(curve: pl.DataFrame) -> Panel:
    return Panel(
        name="failure",
        title="How often n downstream strings are not enough",
        caption="Dashed: exact count, and the paper's 2^-n; dots: simulated, with standard errors.",
        charts=(
            Lines(
                x=Axis("samples", "downstream strings n"),
                y=Axis("failure", "probability of failure", error="standard_error"),
                colour=Colour("series", "probability"),
                series="series",
                predicted="formula",
            ),
        ),
        data=curve,
    )


ENTRY = Entry("theorem-5.1", theorem_5_1, FULL, SMOKE, seconds=10)
