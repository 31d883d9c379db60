"""Intervals of statistics that cannot exceed a limit, such as correlations: they stay within it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from isoloss.experiments.statistics.cluster_bootstrap import ClusterEstimate

MOST_CLUSTERS = 1000
"""Beyond this many, how many are needed is not worth a number."""


@dataclass(frozen=True)
class BoundedEstimate:
    """A statistic between -`limit` and `limit`: 1 for a correlation, 2 for a difference of two.

    Intervals are those on Fisher's scale z = artanh(r / limit), dz = dr / limit / (1 - (r / limit)²), put
    back. A correlation's own distribution is skewed: in simulations of correlations of -0.5 to -0.3,
    intervals on its own scale cover 92 to 96 % where 95 are meant, and these 94 to 99.7 %. Near 0 the two
    agree. Without a limit, that of infinity, it is the estimate as it is.
    """

    estimate: ClusterEstimate
    limit: float = math.inf

    def p_value(self, threshold: float) -> float:
        """Two-sided, that the statistic's expectation is `threshold`; see `ClusterEstimate.p_value`.

        >>> known = BoundedEstimate(ClusterEstimate(0.9, 0.05, 5), limit=1.0)
        >>> low, _ = known.interval(0.99)
        >>> round(known.p_value(low), 6)
        0.01
        """
        if not self._is_transformed:
            return self.estimate.p_value(threshold)
        if abs(threshold) >= self.limit:
            return 0.0 if math.isfinite(self._on_fishers_scale.value) else 1.0
        return self._on_fishers_scale.p_value(math.atanh(threshold / self.limit))

    def interval(self, confidence: float) -> tuple[float, float]:
        """The thresholds with a p-value above 1 - `confidence`; nan, nan where nothing bounds them.

        >>> low, high = BoundedEstimate(ClusterEstimate(0.9, 0.05, 5), limit=1.0).interval(0.95)
        >>> round(low, 3), round(high, 3)
        (0.63, 0.976)
        """
        if not self._is_transformed:
            return self.estimate.interval(confidence)
        low, high = self._on_fishers_scale.interval(confidence)
        return self.limit * math.tanh(low), self.limit * math.tanh(high)

    def clusters_to_decide(self, bounds: Sequence[float], confidence: float) -> int | None:
        """How many clusters would leave every bound out of the interval, were value and spread to stay.

        None where `MOST_CLUSTERS` would not do, or the spread is not known.

        >>> BoundedEstimate(ClusterEstimate(1.0, 0.5, 5)).clusters_to_decide([0.0], 0.95)
        8
        """
        if not math.isfinite(self.estimate.standard_error):
            return None
        for clusters in range(self.estimate.clusters, MOST_CLUSTERS + 1):
            spread = self.estimate.standard_error * math.sqrt(self.estimate.clusters / clusters)
            supposed = replace(self, estimate=ClusterEstimate(self.estimate.value, spread, clusters))
            if all(supposed.p_value(bound) <= 1 - confidence for bound in bounds):
                return clusters
        return None

    @property
    def value(self) -> float:
        """The statistic of all clusters."""
        return self.estimate.value

    @property
    def _is_transformed(self) -> bool:
        """Clusters that agree exactly are judged by their sign, which no scale changes."""
        return math.isfinite(self.limit) and self.estimate.standard_error != 0

    @property
    def _on_fishers_scale(self) -> ClusterEstimate:
        share = self.estimate.value / self.limit
        if not abs(share) < 1:
            return ClusterEstimate(math.nan, math.nan, self.estimate.clusters)
        error = self.estimate.standard_error / self.limit / (1 - share**2)
        return ClusterEstimate(math.atanh(share), error, self.estimate.clusters)
