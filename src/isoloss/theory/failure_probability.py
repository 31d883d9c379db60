"""How often n downstream strings fail to determine the flattest model's output layer (Theorem 5.1)."""

import math
from collections.abc import Iterator
from fractions import Fraction

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.languages.dyck import LEFT, counted_strings, dyck
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate
from isoloss.theory.bracket_strings import BracketStrings, string_classes
from isoloss.theory.one_layer_transformer import OneLayerTransformer

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


def paper_failure(length: int, samples: int) -> float:  # noqa: ARG001  (the paper's has no T)
    """2^-n, the failure probability that Theorem 5.1's text allows.

    >>> paper_failure(6, 4)
    0.0625
    """
    return 0.5**samples


def simulated_failure(
    model: OneLayerTransformer,
    samples: int,
    repetitions: int,
    seed: int,
    progress: Progress = silent,
) -> Estimate:
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
    failures = done = 0
    for drawn in _drawn_classes(length, samples, repetitions, seed):
        losses = population_losses(refitted_outputs(features, strings.target, drawn), strings)
        failures += int((losses > ZERO * length).sum())
        done += len(drawn)
        progress("simulating samples", done, repetitions)
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
