"""By how much two models differ, measured on the same sentences or examples, and an interval for it."""

import math
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from isoloss.estimate import half_width, paired_difference
from isoloss.measurements.linear_probe import Accuracy


@dataclass(frozen=True)
class PairedDifference:
    """A mean difference, its standard error with its degrees of freedom, and the number of pairs.

    `largest` is how far apart a pair's two can be, 1 for right and wrong, where that is known.
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
        """`values` less `reference` over the sentences that both have: the first ones of one order.

        >>> import torch
        >>> PairedDifference.of_sentences(torch.tensor([5.0, 9.0, 4.0]), torch.tensor([4.0, 7.0]))
        PairedDifference(value=1.5, standard_error=0.5, freedom=1.0, n=2, largest=inf)
        """
        common = min(len(values), len(reference))
        found = paired_difference(values[:common], reference[:common])
        return PairedDifference(found.value, found.standard_error, common - 1.0, common)

    @staticmethod
    def of_accuracies(accuracy: Accuracy, reference: Accuracy) -> "PairedDifference":
        """Less `reference`, of the same test examples and seeds.

        Examples and seeds are both a sample of many, so both are in the error: s² of the examples' mean
        differences over n, plus s² of the seeds' differences over S. That counts the chance of one
        seed at one example twice, and is too large rather than too small. Its degrees of freedom are
        Satterthwaite's (1946, An Approximate Distribution of Estimates of Variance Components).
        """
        of_examples = paired_difference(accuracy.correct, reference.correct)
        of_seeds = paired_difference(accuracy.by_seed, reference.by_seed)
        parts = [(of.standard_error**2, of.n - 1.0) for of in (of_examples, of_seeds)]
        variance = sum(part for part, _ in parts)
        spread = sum(part**2 / freedom for part, freedom in parts)
        freedom = variance**2 / spread if spread else of_examples.n - 1.0
        return PairedDifference(of_examples.value, math.sqrt(variance), freedom, of_examples.n, largest=1.0)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Student's interval; where all n pairs differ by the same, which has no spread to go by, another.

        Of accuracies: with confidence c, no more than a share p = 1 - (1 - c)^(1/n) of all examples differs
        by anything else, since n examples would otherwise show one (Clopper and Pearson 1934, for none of n).
        That moves the mean by p (`largest` + |value|) at most. Of what has no largest difference: n that all
        differ in the same way have the probability 2^(1 - n) even where each is as likely to differ in the
        other (the sign test, two-sided), and too few of them leave the interval without ends.

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
    """The accuracy of what every seed gets right alike, such as a fixed answer."""
    return Accuracy("constant", correct, correct.mean().repeat(seeds))
