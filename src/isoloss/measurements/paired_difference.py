"""Differences between two models on the same sentences or examples, with confidence intervals."""

import math

from jaxtyping import Float
from torch import Tensor

from isoloss.measurements.linear_probe import Accuracy
from isoloss.results.estimate import Estimate, paired_difference


def difference_on_common_sentences(
    values: Float[Tensor, " n"], reference: Float[Tensor, " n_reference"]
) -> Estimate:
    """Mean of `values - reference` over the sentences that both have: the first ones of a common order.

    >>> import torch
    >>> difference_on_common_sentences(torch.tensor([5.0, 9.0, 4.0]), torch.tensor([4.0, 7.0]))
    Estimate(value=1.5, standard_error=0.5, n=2, degrees_of_freedom=1.0)
    """
    common = min(len(values), len(reference))
    return paired_difference(values[:common], reference[:common])


def difference_of_accuracies(accuracy: Accuracy, reference: Accuracy) -> Estimate:
    """The accuracy minus that of `reference`, on the same n test examples and seeds.

    Examples and seeds are both samples, so both enter the error: s² of the examples' mean differences over n,
    plus s² of the seeds' differences over S. This counts the noise of a single seed on a single example
    twice, and hence errs on the large side. Its degrees of freedom are Satterthwaite's (1946, An Approximate
    Distribution of Estimates of Variance Components).
    """
    of_examples = paired_difference(accuracy.correct, reference.correct)
    of_seeds = paired_difference(accuracy.by_seed, reference.by_seed)
    parts = [(of.standard_error**2, of.degrees_of_freedom) for of in (of_examples, of_seeds)]
    variance = sum(part for part, _ in parts)
    spread = sum(part**2 / freedom for part, freedom in parts)
    freedom = variance**2 / spread if spread else of_examples.degrees_of_freedom
    return Estimate(of_examples.value, math.sqrt(variance), of_examples.n, freedom)


def interval_of_difference(difference: Estimate, confidence: float) -> tuple[float, float]:
    """That of the estimate, but for models that are the same on all sentences: their difference is 0.

    >>> interval_of_difference(Estimate(0.0, 0.0, 2), 0.95)
    (0.0, 0.0)
    """
    if difference.value == difference.standard_error == 0:
        return 0.0, 0.0
    return difference.interval(confidence)


def interval_of_accuracies(difference: Estimate, confidence: float) -> tuple[float, float]:
    """That of the estimate, or a nonparametric one if all n examples differ by the same, without any spread.

    With confidence c, at most a share p = 1 - (1 - c)^(1/n) of all examples differs by anything else, since n
    examples would otherwise include one (Clopper and Pearson 1934, for none of n). This shifts the mean by at
    most p (1 + |difference|).
    """
    if difference.standard_error > 0:
        return difference.interval(confidence)
    unseen = 1 - (1 - confidence) ** (1 / difference.n)
    reach = unseen * (1 + abs(difference.value))
    return max(difference.value - reach, -1.0), min(difference.value + reach, 1.0)


def constant_accuracy(correct: Float[Tensor, " n"], seeds: int) -> Accuracy:
    """The accuracy of a predictor that is the same for every seed, such as a constant answer."""
    return Accuracy("constant", correct, correct.mean().repeat(seeds))
