"""The difference between two models on the same sentences or examples, with a confidence interval."""

import math
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from isoloss.measurements.linear_probe import Accuracy
from isoloss.results.estimate import half_width, paired_difference


@dataclass(frozen=True)
class PairedDifference:
    """A mean difference, its standard error with its degrees of freedom, and the number of pairs.

    `largest` is the largest possible difference of a pair, if known; 1 for correct against wrong.
    """

    value: float
    standard_error: float
    freedom: float
    n: int
    largest: float = math.inf

    @staticmethod
    def of_sentences(
        values: Float[Tensor, " n"], reference: Float[Tensor, " n_reference"]
    ) -> "PairedDifference":
        """`values` minus `reference` over the sentences that both have: the first ones of a common order.

        >>> import torch
        >>> PairedDifference.of_sentences(torch.tensor([5.0, 9.0, 4.0]), torch.tensor([4.0, 7.0]))
        PairedDifference(value=1.5, standard_error=0.5, freedom=1.0, n=2, largest=inf)
        """
        common = min(len(values), len(reference))
        found = paired_difference(values[:common], reference[:common])
        return PairedDifference(found.value, found.standard_error, common - 1.0, common)

    @staticmethod
    def of_accuracies(accuracy: Accuracy, reference: Accuracy) -> "PairedDifference":
        """The accuracy minus that of `reference`, on the same test examples and seeds.

        Examples and seeds are both samples, so both enter the error: s² of the examples' mean differences
        over n, plus s² of the seeds' differences over S. This counts the noise of a single seed on a single
        example twice, and hence errs on the large side. Its degrees of freedom are Satterthwaite's (1946, An
        Approximate Distribution of Estimates of Variance Components).
        """
        of_examples = paired_difference(accuracy.correct, reference.correct)
        of_seeds = paired_difference(accuracy.by_seed, reference.by_seed)
        parts = [(of.standard_error**2, of.n - 1.0) for of in (of_examples, of_seeds)]
        variance = sum(part for part, _ in parts)
        spread = sum(part**2 / freedom for part, freedom in parts)
        freedom = variance**2 / spread if spread else of_examples.n - 1.0
        return PairedDifference(of_examples.value, math.sqrt(variance), freedom, of_examples.n, largest=1.0)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Student's t interval, or a nonparametric one if all n pairs differ by the same, without any spread.

        For accuracies: with confidence c, at most a share p = 1 - (1 - c)^(1/n) of all examples differs by
        anything else, since n examples would otherwise include one (Clopper and Pearson 1934, for none of n).
        This shifts the mean by at most p (`largest` + |value|). Without a largest difference: n pairs that
        all differ in the same direction have probability 2^(1 - n) even if both directions are equally likely
        (two-sided sign test), and if there are too few of them, the interval is unbounded.

        >>> low, high = PairedDifference(1.0, 0.1, 9.0, 10).interval(0.95)
        >>> f"{low:.3f} to {high:.3f}"
        '0.774 to 1.226'
        """
        if self.standard_error == 0 and self.largest < math.inf:
            unseen = 1 - (1 - confidence) ** (1 / self.n)
            reach = unseen * (self.largest + abs(self.value))
            return max(self.value - reach, -self.largest), min(self.value + reach, self.largest)
        if self.standard_error == 0 and self.value != 0 and 2.0 ** (1 - self.n) > 1 - confidence:
            return -math.inf, math.inf
        reach = half_width(self.standard_error, self.freedom, confidence)
        return self.value - reach, self.value + reach


def constant_accuracy(correct: Float[Tensor, " n"], seeds: int) -> Accuracy:
    """The accuracy of a predictor that is the same for every seed, such as a constant answer."""
    return Accuracy("constant", correct, correct.mean().repeat(seeds))
