"""The allocation of bits against every possible one."""

import itertools

import pytest
import torch

from isoloss.curvature.weight_changes import allocate_bits
from isoloss.errors import BadInput


def every_allocation(costs, sizes, mean_bits):
    """The least sum of costs, by trying all."""
    best = float("inf")
    for chosen in itertools.product(*costs.values()):
        bits = dict(zip(costs, chosen, strict=True))
        if sum(sizes[part] * bits[part] for part in bits) <= mean_bits * sum(sizes.values()):
            best = min(best, sum(costs[part][bits[part]] for part in bits))
    return best


@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 40))]
)
def test_no_allocation_is_better(seed):
    generator = torch.Generator().manual_seed(seed)
    names = [f"part {number}" for number in range(6)]
    sizes = {name: int(torch.randint(1, 40, (1,), generator=generator)) for name in names}
    # Not convex in the bits: the lower hull alone would miss some of the best.
    costs = {
        name: {bits: float(torch.rand(1, generator=generator)) * 4.0**-bits for bits in (3, 4, 6, 8)}
        for name in names
    }
    for mean_bits in (3.0, 4.25, 5.5, 8.0):
        found = allocate_bits(costs, sizes, mean_bits)
        assert found.predicted == pytest.approx(every_allocation(costs, sizes, mean_bits), rel=1e-12)
        assert found.predicted == pytest.approx(sum(costs[part][found.bits[part]] for part in names))
        numbers = sum(sizes.values())
        spent = sum(sizes[part] * found.bits[part] for part in names) / numbers
        assert found.mean_bits == pytest.approx(spent)
        assert spent <= mean_bits
        assert list(found.bits) == names


def test_a_mean_below_the_fewest_bits_is_refused():
    with pytest.raises(BadInput, match=r"a mean of 2.5 bits is below the 3 of the fewest"):
        allocate_bits({"a": {3: 1.0, 4: 0.5}}, {"a": 7}, 2.5)


def test_a_mean_that_can_be_met_exactly_is():
    """4.35 times 100 is a little less than 435 in floating point."""
    costs = {name: {4: 1.0, 5: 0.0} for name in ("a", "b")}
    found = allocate_bits(costs, {"a": 65, "b": 35}, 4.35)
    assert (found.bits, found.mean_bits) == ({"a": 4, "b": 5}, 4.35)
