import math

import pytest

from isoloss.errors import BadInput
from isoloss.results.verdict import Region, Verdict, above, below, within


def test_an_interval_inside_supports_and_one_outside_contradicts() -> None:
    assert above(1.0).verdict(1.1, 2.0) == below(-1.0).verdict(-2.0, -1.1) == Verdict.SUPPORTED
    assert above(1.0).verdict(-2.0, 0.9) == below(-1.0).verdict(-0.9, 2.0) == Verdict.NOT_SUPPORTED
    assert within(1.0).verdict(-2.0, -1.5) == within(1.0).verdict(1.5, 2.0) == Verdict.NOT_SUPPORTED
    for low, high in ((-1.5, 0.0), (0.5, 1.5), (-3.0, 3.0), (math.nan, math.nan)):
        assert within(1.0).verdict(low, high) == Verdict.INCONCLUSIVE
    assert above(1.0).verdict(math.nan, math.nan) == Verdict.INCONCLUSIVE


@pytest.mark.parametrize("ends", [(-math.inf, math.inf), (1.0, 1.0), (2.0, 1.0), (math.nan, 1.0)])
def test_what_says_nothing_is_no_claim(ends: tuple[float, float]) -> None:
    with pytest.raises(BadInput, match="leave some numbers out and some in"):
        Region(*ends)


def test_an_interval_that_only_touches_a_bound_decides_nothing() -> None:
    """As where all seeds agree exactly: the p-value of that number is 1."""
    for region in (above(0.0), below(0.0)):
        assert region.verdict(0.0, 0.0) == Verdict.INCONCLUSIVE
    assert within(1.0).verdict(-1.0, 0.5) == within(1.0).verdict(1.0, 2.0) == Verdict.INCONCLUSIVE
