import numpy as np
import pytest

from isoloss.experiments.statistics.bounded_estimate import MOST_CLUSTERS, BoundedEstimate
from isoloss.experiments.statistics.cluster_bootstrap import ClusterEstimate


@pytest.mark.parametrize("limit", [1.0, 2.0])
@pytest.mark.parametrize("share", [-0.97, -0.3, 0.0, 0.6, 0.99])
def test_intervals_stay_within_the_limit_and_agree_with_p_values(limit: float, share: float) -> None:
    bounded = BoundedEstimate(ClusterEstimate(share * limit, 0.2, 5), limit)
    for confidence in (0.9, 0.99):
        low, high = bounded.interval(confidence)
        assert -limit <= low < share * limit < high <= limit
        if abs(share) < 0.9:
            assert [bounded.p_value(low), bounded.p_value(high)] == pytest.approx([1 - confidence] * 2)


def test_near_the_middle_and_without_a_limit_it_is_the_estimate() -> None:
    estimate = ClusterEstimate(0.01, 0.005, 5)
    assert BoundedEstimate(estimate, 2.0).interval(0.95) == pytest.approx(estimate.interval(0.95), rel=1e-3)
    assert BoundedEstimate(estimate).interval(0.95) == estimate.interval(0.95)
    assert BoundedEstimate(estimate).p_value(0.0) == estimate.p_value(0.0)


def test_at_the_ends_of_the_scale() -> None:
    assert BoundedEstimate(ClusterEstimate(1.0, 0.0, 6), 1.0).interval(0.95) == (1, 1)
    for estimate in (
        ClusterEstimate(1.0, 0.0, 3),
        ClusterEstimate(np.nan, np.nan, 3),
        ClusterEstimate(1.0, 0.1, 3),
    ):
        assert np.isnan(BoundedEstimate(estimate, 1.0).interval(0.95)).all()
        assert BoundedEstimate(estimate, 1.0).p_value(1.0) == 1.0


def test_what_no_number_of_clusters_decides_has_none() -> None:
    assert BoundedEstimate(ClusterEstimate(1e-6, 1.0, 5)).clusters_to_decide([0.0], 0.95) is None
    assert BoundedEstimate(ClusterEstimate(np.nan, np.nan, 5)).clusters_to_decide([0.0], 0.95) is None
    assert BoundedEstimate(ClusterEstimate(9.0, 0.1, 5)).clusters_to_decide([0.0], 0.95) == 5
    assert MOST_CLUSTERS > 100
