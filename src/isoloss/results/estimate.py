"""An estimate: a number, its standard error, and the intervals and p-values that follow from them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.results.record import Record, Setting, as_text

CONFIDENCE = 0.95
"""Probability, at least, that all intervals shown together hold what they are intervals of."""
LARGEST_EXPONENT = 700.0
"""Of intervals on the scale of logarithms: beyond it, a number is too large for a float."""


@dataclass(frozen=True)
class Estimate:
    """A statistic of `n` independent units and its standard error, both in the unit of what is estimated.

    Intervals and p-values are those of Student's t with `degrees_of_freedom`, by default n - 1, those of a
    mean; infinitely many make them normal. They assume that the statistic is approximately normal. Nothing is
    known of one whose standard error is nan, or that has one unit.

    A standard error of zero means that all units agree exactly, without a spread from which to estimate an
    error. The sign test is then used instead: by chance, all fall on the same side of a bound with
    probability 2^(1 - n) (two-sided), which is the p-value. Hence an interval of zero width is given only at
    a confidence that the number of units supports: 93.75 % for five, 96.875 % for six.

    A correlation between -`limit` and `limit` (1, or 2 for the difference of two) has a skewed distribution.
    Given its limit, intervals and p-values are computed on Fisher's scale z = artanh(r / limit), with the
    error dz = dr / limit / (1 - (r / limit)²), and transformed back. In simulations of correlations of -0.5
    to -0.3, intervals on the original scale cover 92 to 96 % at a nominal 95 %, and these 94 to 99.7 %. Near
    0 the two agree. Of a statistic that cannot be below `lowest`, such as a range, they are computed on the
    scale log(v - lowest), and so lie above it too; but where the error is more than half of v - lowest, for
    which that scale says nothing, on the original one, where an interval ends at `lowest`; its upper end is
    then at least what it would be at half. On few units of a distribution that is itself skewed, such as
    five numbers whose logarithms vary by 0.5 to 1, upper bounds fail two to four times as often as stated.
    """

    value: float
    standard_error: float
    n: int
    degrees_of_freedom: float = math.nan

    def __post_init__(self) -> None:
        if math.isnan(self.degrees_of_freedom):
            object.__setattr__(self, "degrees_of_freedom", self.n - 1.0)

    def __str__(self) -> str:
        """Value and standard error, to the error's second digit.

        >>> print(Estimate(1.42153, 0.00412, 500))
        1.4215 ± 0.0041
        """
        return as_text(self.value, self.standard_error)

    def interval(
        self, confidence: float, limit: float = math.inf, lowest: float = -math.inf
    ) -> tuple[float, float]:
        """The bounds whose p-value is above 1 - `confidence`; nan, nan where nothing bounds them.

        >>> [round(end, 3) for end in Estimate(2.0, 0.5, 3).interval(0.95)]
        [-0.151, 4.151]
        >>> [round(end, 3) for end in Estimate(0.9, 0.05, 5).interval(0.95, limit=1.0)]
        [0.63, 0.976]
        >>> [round(end, 3) for end in Estimate(0.1, 0.05, 5).interval(0.95, lowest=0.0)]
        [0.025, 0.401]
        >>> [round(end, 3) for end in Estimate(0.5, 0.2, 5).interval(0.95, limit=1.0, lowest=0.0)]
        [0.165, 1.0]
        >>> [round(end, 3) for end in Estimate(1.0, 0.51, 10).interval(0.95, lowest=0.0)]
        [0.0, 3.099]
        """
        if self._is_bounded_below(lowest):
            low, high = self._on_log_scale(lowest).interval(confidence)
            return lowest + math.exp(low), min(lowest + math.exp(min(high, LARGEST_EXPONENT)), limit)
        if self._is_skewed(limit):
            low, high = self._on_fishers_scale(limit).interval(confidence)
            return max(limit * math.tanh(low), lowest), limit * math.tanh(high)
        level = 1 - confidence
        if not self._is_known or (self.standard_error == 0 and 2.0 ** (1 - self.n) > level):
            return math.nan, math.nan
        from scipy.special import stdtrit  # many who estimate ask for no interval

        reach = -float(stdtrit(self.degrees_of_freedom, level / 2)) * self.standard_error
        surer = self._as_sure_as_the_log_scale_allows(lowest)
        least = -math.inf if surer is None else surer.interval(confidence, limit, lowest)[1]
        return max(lowest, self.value - reach), max(lowest, self.value + reach, least)

    def p_value(self, bound: float, limit: float = math.inf, lowest: float = -math.inf) -> float:
        """Two-sided, for an expectation of `bound`; 1 if nothing is known.

        >>> round(Estimate(2.0, 0.5, 3).p_value(0.0), 4), Estimate(2.0, 0.0, 3).p_value(0.0)
        (0.0572, 0.25)
        """
        if self._is_bounded_below(lowest):
            on_log_scale = self._on_log_scale(lowest)
            if bound <= lowest:
                return 0.0 if math.isfinite(on_log_scale.value) else 1.0
            return on_log_scale.p_value(math.log(bound - lowest))
        if self._is_skewed(limit):
            transformed = self._on_fishers_scale(limit)
            if abs(bound) >= limit:
                return 0.0 if math.isfinite(transformed.value) else 1.0
            return transformed.p_value(math.atanh(bound / limit))
        if not self._is_known or self.value == bound:
            return 1.0
        if self.standard_error == 0:
            return float(2.0 ** (1 - self.n))
        if bound <= lowest:
            return 0.0
        from scipy.special import stdtr

        found = 2 * float(stdtr(self.degrees_of_freedom, -abs(self.value - bound) / self.standard_error))
        surer = self._as_sure_as_the_log_scale_allows(lowest) if bound > self.value else None
        return found if surer is None else max(found, surer.p_value(bound, limit, lowest))

    def record(
        self,
        quantity: str,
        unit: str,
        seed: int | None = None,
        checkpoint: str = "",
        settings: Mapping[str, Setting] | None = None,
    ) -> Record:
        """The estimate as a record.

        >>> Estimate(2.0, 0.5, 3).record("loss", "nats").standard_error
        0.5
        """
        error, known = self.standard_error, dict(settings or {})
        return Record(quantity, self.value, unit, error, self.n, seed, checkpoint, known)

    @property
    def _is_known(self) -> bool:
        return self.n > 1 and math.isfinite(self.value) and math.isfinite(self.standard_error)

    def _is_skewed(self, limit: float) -> bool:
        """Whether Fisher's scale applies; units that agree exactly are judged by sign, on any scale."""
        return math.isfinite(limit) and self.standard_error != 0

    def _is_bounded_below(self, lowest: float) -> bool:
        """Whether the logarithm applies: not far from the bound only, nor to units that agree exactly."""
        near = not self.standard_error <= (self.value - lowest) / 2
        return math.isfinite(lowest) and self.standard_error != 0 and not near

    def _as_sure_as_the_log_scale_allows(self, lowest: float) -> "Estimate | None":
        """The value with the largest error at which the logarithm applies, if its own is larger.

        On the logarithm's scale the distribution is skewed upwards; without what that gives at the error
        where it ends, an upper bound would fall there, and a larger error make it smaller.
        """
        above = self.value - lowest
        if not (math.isfinite(lowest) and above > 0 and self.standard_error > above / 2):
            return None
        return replace(self, standard_error=above / 2)

    def _on_log_scale(self, lowest: float) -> "Estimate":
        above = self.value - lowest
        if not above > 0:
            return Estimate(math.nan, math.nan, self.n, self.degrees_of_freedom)
        return Estimate(math.log(above), self.standard_error / above, self.n, self.degrees_of_freedom)

    def _on_fishers_scale(self, limit: float) -> "Estimate":
        share = self.value / limit
        if not abs(share) < 1:
            return Estimate(math.nan, math.nan, self.n, self.degrees_of_freedom)
        error = self.standard_error / limit / (1 - share**2)
        return Estimate(math.atanh(share), error, self.n, self.degrees_of_freedom)


def sample_mean(values: Float[Tensor, " n"]) -> Estimate:
    """Mean of n independent values, one per sentence, run or draw, with standard error s / √n.

    Raises BadInput for fewer than two, for which there is no standard error.

    >>> sample_mean(torch.tensor([1.0, 2.0, 3.0, 6.0]))
    Estimate(value=3.0, standard_error=1.0801234497346435, n=4, degrees_of_freedom=3.0)
    """
    n = len(values)
    if n < 2:
        raise BadInput(f"a mean of {n} has no standard error; give at least 2 values")
    values = values.double()
    return Estimate(float(values.mean()), float(values.std() / n**0.5), n)


def mean_over_members(means: Float[Tensor, " n"], sizes: Int[Tensor, " n"]) -> Estimate:
    """Mean over all members of n independent clusters, given each cluster's mean and size.

    Over all words of n sentences, for example, whose means over their words are given.
    The ratio R = Σ_i T_i y_i / Σ_i T_i, with the standard error of a ratio of means (linearised):
    the deviation of T_i (y_i - R) over clusters, divided by √n and by the mean size.

    >>> mean_over_members(torch.tensor([1.0, 4.0]), torch.tensor([2, 1])).value
    2.0
    """
    return sample_mean(cluster_values(means, sizes))


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
    Estimate(value=1.0, standard_error=0.0, n=3, degrees_of_freedom=2.0)
    """
    if len(values) != len(reference):
        raise BadInput(
            f"a paired difference needs the same sentences on both sides, not {len(values)} and "
            f"{len(reference)}; measure both on one set"
        )
    return sample_mean(values.double() - reference.double())


def jackknifed(value: float | Float[Tensor, ""], without: Float[Tensor, " n"]) -> Estimate:
    """A smooth statistic of n independent units, with its standard error from those `without` each of them.

    A mean's is that of `sample_mean`:

    >>> round(jackknifed(3.0, torch.tensor([11.0, 10.0, 9.0, 6.0]) / 3).standard_error, 6)
    1.080123
    """
    without, n = without.double(), len(without)
    error = ((n - 1) / n * (without - without.mean()).square().sum()).sqrt()
    return Estimate(float(value), float(error), n)


def deviation_over_subsets(values: Float[Tensor, " n"], subsets: int = 5) -> Estimate:
    """Standard deviation of the means of disjoint subsets: the paper's error bar for a loss (A.5).

    Each subset consists of consecutive sentences. This is the spread of a mean over n / `subsets` sentences,
    hence about √`subsets` times the standard error of the mean over all; `n` counts the subsets.

    >>> deviation_over_subsets(torch.tensor([1.0, 3.0, 2.0, 6.0]), subsets=2).value
    1.4142135623730951
    """
    if subsets < 2 or len(values) < subsets:
        raise BadInput(f"{len(values)} sentences cannot be split into {subsets} subsets; measure on more")
    return deviation_of(torch.stack([part.mean() for part in values.double().tensor_split(subsets)]))


def deviation_of(values: Float[Tensor, " n"]) -> Estimate:
    """The standard deviation s of n numbers, and its own standard error if they are normal, s / √(2 (n - 1)).

    >>> deviation_of(torch.tensor([1.0, 2.0, 3.0])).standard_error
    0.5
    """
    deviation, n = float(values.std()), len(values)
    return Estimate(deviation, deviation / (2 * (n - 1)) ** 0.5, n)
