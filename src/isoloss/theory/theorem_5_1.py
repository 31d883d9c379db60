"""Theorem 5.1: how many downstream strings the flattest solution needs."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import polars as pl
import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.languages.dyck import LEFT, counted_strings, dyck
from isoloss.panels import Axis, Colour, Lines, Panel
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate
from isoloss.theory.finding import Entry, Finding, Relation, Statement, estimated, stated
from isoloss.theory.one_layer_transformer import BracketStrings, OneLayerTransformer, string_classes
from isoloss.theory.zero_loss_solutions import split_neurons, two_neurons

SOURCE = "Theorem 5.1"
LONGEST, MOST_BRACKETS = 200, 100_000
"""The largest T, whose 2 T classes of strings take 4 T³ numbers or 256 MB, and the largest T n, which is the
number of bits of the exact count."""
ZERO = 1e-9
"""A population loss counts as zero below this share of E g*² = T, the loss of the output 0: far above the
rounding of float64 (1e-28), far below the loss that one missing sign leaves (T/2)."""
CHUNK = 2**22
"""Brackets drawn at a time: 32 MB."""


def refuse_impossible(length: int, samples: int) -> None:
    """Raise BadInput for an odd length, no samples, or more than can be counted exactly."""
    dyck(length)
    if length > LONGEST:
        raise BadInput(
            f"strings of {length} brackets are too long for the exact count; give a length of at most "
            f"{LONGEST}"
        )
    if samples < 1:
        raise BadInput(f"{samples} downstream strings fit nothing; give at least 1")
    if length * samples > MOST_BRACKETS:
        raise BadInput(
            f"{samples} strings of {length} brackets are too many for the exact count; length times samples "
            f"must be at most {MOST_BRACKETS:,}"
        )


def balanced_share(length: int) -> Fraction:
    """P0 = C(T, T/2) / 2^T, the probability that g* is zero on a downstream string.

    >>> balanced_share(4)
    Fraction(3, 8)
    """
    return Fraction(math.comb(length, length // 2), 2**length)


def counted_failure(length: int, samples: int) -> float:
    """The share of all (2^T)^n samples that do not contain both a string with g* > 0 and one with g* < 0.

    Counted in integers, string by string: how many samples so far have seen which signs.

    >>> counted_failure(4, 1), counted_failure(4, 2)
    (1.0, 0.8046875)
    """
    refuse_impossible(length, samples)
    zero = math.comb(length, length // 2)
    one_sign = (2**length - zero) // 2
    none, one, both = 1, 0, 0
    for _ in range(samples):
        none, one, both = (
            none * zero,
            2 * none * one_sign + one * (zero + one_sign),
            one * one_sign + both * 2**length,
        )
    return (none + one) / (none + one + both)


def corrected_failure(length: int, samples: int) -> float:
    """2 ((1 + P0)/2)^n - P0^n: neither sign may be missing (docs/what-is-measured.md).

    >>> round(corrected_failure(4, 2), 7)
    0.8046875
    """
    balanced = float(balanced_share(length))
    return 2 * ((1 + balanced) / 2) ** samples - balanced**samples


def paper_failure(samples: int) -> float:
    """2^-n, the failure probability that Theorem 5.1's text allows.

    >>> paper_failure(4)
    0.0625
    """
    return 0.5**samples


def simulated_failure(model: OneLayerTransformer, samples: int, repetitions: int, seed: int) -> Estimate:
    """The share of `repetitions` samples after which the refitted model's population loss is not zero.

    Each draws n strings, fits ũ and computes the loss over the whole distribution. `model` must ignore the
    order of all brackets but the first. The standard error is Agresti and Coull's, p̃ = (k + 2) / (r + 4),
    which is not zero if no sample, or every one, failed; `n` counts the repetitions.
    """
    length = model.value.shape[1] // 2
    refuse_impossible(length, samples)
    if repetitions < 1:
        raise BadInput(f"{repetitions} repetitions simulate nothing; give at least 1")
    strings = string_classes(length)
    features = model.features(strings.tokens)
    failures = 0
    for drawn in _drawn_classes(length, samples, repetitions, seed):
        losses = population_losses(refitted_outputs(features, strings.target, drawn), strings)
        failures += int((losses > ZERO * length).sum())
    shrunk = (failures + 2) / (repetitions + 4)
    error = math.sqrt(shrunk * (1 - shrunk) / (repetitions + 4))
    return Estimate(failures / repetitions, error, repetitions)


def _drawn_classes(length: int, samples: int, repetitions: int, seed: int) -> Iterator[Int[Tensor, "r n"]]:
    """Rows of `string_classes` for r samples of n strings at a time."""
    generator = torch.Generator().manual_seed(seed)
    most = max(1, CHUNK // (length * samples))
    for begin in range(0, repetitions, most):
        count = min(most, repetitions - begin)
        left = counted_strings(length, count * samples, generator).sentences.ids == LEFT
        rows = torch.where(left[:, 0], 0, length) + left[:, 1:].sum(1)
        yield rows.view(count, samples)


def refitted_outputs(
    features: Float[Tensor, "s m"], target: Float[Tensor, " s"], drawn: Int[Tensor, "r n"]
) -> Float[Tensor, "r s"]:
    """f on all s strings, for each of r samples of n of them, with ũ = argmin ‖u‖ such that L̂ = 0.

    ũ = Φ⁺ y over the sample's rows of Φ = `features` (Theorem 5.1; the factor 1/m of f cancels). If no u
    fits, the least-squares solution. r n (m + n) numbers in memory.

    >>> features = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]).double()
    >>> refitted_outputs(features, torch.tensor([1.0, 4.0, 3.0]).double(), torch.tensor([[0]])).tolist()
    [[1.0, 0.0, 3.0]]
    """
    heads: Tensor = torch.linalg.pinv(features[drawn]) @ target[drawn][..., None]
    return heads[..., 0] @ features.T


def population_losses(outputs: Float[Tensor, "r s"], strings: BracketStrings) -> Float[Tensor, " r"]:
    """L^Pds = E (f - g*)², for each row of outputs, `strings` being the whole distribution."""
    return (outputs - strings.target).square() @ strings.probability


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
    printed = paper_failure(samples)
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
    count = f"Counted over all samples of {sizes}, refitting fails with probability 2((1 + P0)/2)^n - P0^n."
    refit = f"Refitted on {sizes}, the flattest solution fails as often as counted."
    bound = f"The paper's 2^-n is at least the probability of failure, for {sizes}."
    return (
        _counted("exact", count, counted, "equal to", formula, n, paper),
        estimated(
            "failure_probability_simulated",
            refit,
            SOURCE,
            simulated,
            "equal to",
            counted,
            tolerance=settings.tolerance,
            paper=paper,
        ),
        _counted("paper", bound, printed, "at least", counted, n, paper),
    )


def _counted(
    name: str, sentence: str, measured: float, relation: Relation, predicted: float, n: int, paper: str
) -> Finding:
    name, tolerance = f"failure_probability_{name}", 1e-12 * predicted
    return Finding(
        name, sentence, SOURCE, measured, relation, predicted, n=n, tolerance=tolerance, paper=paper
    )


def _curve(settings: Theorem51Settings, progress: Progress) -> pl.DataFrame:
    length, rows = settings.length, []
    models = {
        "simulated, two neurons": two_neurons(length),
        "simulated, split neurons": split_neurons(length),
    }
    for n in range(1, settings.longest_curve + 1):
        for name, formula in (("exact", counted_failure(length, n)), ("paper, 2^-n", paper_failure(n))):
            rows.append((name, n, formula, 0.0, True))
        for name, model in models.items():
            found = simulated_failure(model, n, settings.repetitions, settings.seed)
            rows.append((name, n, found.value, found.standard_error, False))
        progress("Failures against the number of strings", n, settings.longest_curve)
    columns = ["series", "samples", "failure", "standard_error", "formula"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def _panel(curve: pl.DataFrame) -> Panel:
    failure = Axis("failure", "probability of failure", error="standard_error")
    colour = Colour("series", "probability")
    return Panel(
        "failure",
        "How often n downstream strings are not enough",
        "Dashed: exact count, and the paper's 2^-n; dots: simulated, with standard errors.",
        (Lines(Axis("samples", "downstream strings n"), failure, colour, "series", "formula"),),
        curve,
    )


ENTRY = Entry("theorem-5.1", theorem_5_1, FULL, SMOKE, seconds=10)
