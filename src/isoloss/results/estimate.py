"""An estimate: a number, its standard error, and the number of independent sentences it is based on."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from scipy.special import stdtrit
from torch import Tensor

from isoloss.errors import BadInput


@dataclass(frozen=True)
class Estimate:
    """A mean over `n` independent units and its standard error, both in the unit of the averaged quantity."""

    value: float
    standard_error: float
    n: int


def half_width(standard_error: float, freedom: float, confidence: float) -> float:
    """Half the width of Student's t interval with that coverage.

    >>> [round(half_width(1.0, freedom, 0.95), 2) for freedom in (1, 3, 999)]
    [12.71, 3.18, 1.96]
    """
    return float(stdtrit(freedom, (1 + confidence) / 2)) * standard_error


def mean_over_sentences(values: Float[Tensor, " n"]) -> Estimate:
    """Mean of one value per sentence, with standard error s / √n for independent sentences.

    Raises BadInput for fewer than two sentences, for which there is no standard error.

    >>> mean_over_sentences(torch.tensor([1.0, 2.0, 3.0, 6.0]))
    Estimate(value=3.0, standard_error=1.0801234497346435, n=4)
    """
    n = len(values)
    if n < 2:
        raise BadInput(f"{n} sentences have no standard error; measure on at least 2")
    values = values.double()
    return Estimate(float(values.mean()), float(values.std() / n**0.5), n)


def mean_over_tokens(values: Float[Tensor, " n"], lengths: Int[Tensor, " n"]) -> Estimate:
    """Mean over all words, given each sentence's own mean over its words; sentences are the clusters.

    >>> mean_over_tokens(torch.tensor([1.0, 4.0]), torch.tensor([2, 1])).value
    2.0
    """
    return mean_over_members(values, lengths)


def mean_over_members(means: Float[Tensor, " n"], sizes: Int[Tensor, " n"]) -> Estimate:
    """Mean over all members of n independent clusters, given each cluster's own mean and size.

    The ratio R = Σ_i T_i y_i / Σ_i T_i, with the standard error of a ratio of means (linearised):
    the deviation of T_i (y_i - R) over clusters, divided by √n and by the mean size.
    """
    return mean_over_sentences(cluster_values(means, sizes))


def cluster_values(means: Float[Tensor, " n"], sizes: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """R + T_i (y_i - R) / T̄: values per cluster with the mean and standard error of the mean over members.

    The difference of two measurements on the same clusters is the mean of the differences of these values,
    and its standard error is that of this mean.

    >>> cluster_values(torch.tensor([1.0, 4.0]), torch.tensor([2, 1])).mean().item()
    2.0
    """
    weights = sizes.double()
    ratio = (weights * means.double()).sum() / weights.sum()
    return ratio + weights * (means.double() - ratio) / weights.mean()


def paired_difference(values: Float[Tensor, " n"], reference: Float[Tensor, " n_reference"]) -> Estimate:
    """Mean of `values - reference`, both measured on the same sentences in the same order.

    What the two share (the sentences' difficulty, masks, signs) cancels, so the standard error is that of the
    difference rather than the larger one of two separate measurements. Raises BadInput if the numbers of
    sentences differ.

    >>> paired_difference(torch.tensor([5.0, 9.0, 1.0]), torch.tensor([4.0, 8.0, 0.0]))
    Estimate(value=1.0, standard_error=0.0, n=3)
    """
    if len(values) != len(reference):
        raise BadInput(
            f"a paired difference needs the same sentences on both sides, not {len(values)} and "
            f"{len(reference)}; measure both on one set"
        )
    return mean_over_sentences(values.double() - reference.double())


def deviation_over_subsets(values: Float[Tensor, " n"], subsets: int = 5) -> Estimate:
    """Standard deviation of the means of disjoint subsets: the paper's error bar for a loss (A.5).

    Each subset consists of consecutive sentences. This is the spread of a mean over n / `subsets` sentences,
    hence about √`subsets` times the standard error of the mean over all. Its own standard error is that of a
    deviation of `subsets` normal numbers, s / √(2 (subsets - 1)); `n` counts the subsets.

    >>> deviation_over_subsets(torch.tensor([1.0, 3.0, 2.0, 6.0]), subsets=2).value
    1.4142135623730951
    """
    if subsets < 2 or len(values) < subsets:
        raise BadInput(f"{len(values)} sentences cannot be split into {subsets} subsets; measure on more")
    means = torch.stack([part.mean() for part in values.double().tensor_split(subsets)])
    deviation = float(means.std())
    return Estimate(deviation, deviation / (2 * (subsets - 1)) ** 0.5, subsets)
