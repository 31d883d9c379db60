"""What operations take within themselves, which no count of living tensors sees."""

from collections.abc import Callable

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from isoloss.curvature.per_sentence.factors import OuterProducts, squared_norms
from isoloss.curvature.per_sentence.traces import _gradients_are_finite


def largest_allocation(work: Callable[[], object]) -> int:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        work()
    return max(event.cpu_memory_usage for event in found.events())


def test_looking_at_a_gradient_takes_no_more_than_the_gradient() -> None:
    layer = nn.Linear(300, 400, bias=False)
    scores = layer(torch.ones(1, 300)).sum()
    assert largest_allocation(lambda: _gradients_are_finite(scores, layer)) == layer.weight.nbytes


def test_norms_through_matrices_take_no_copy_of_them_in_double_precision() -> None:
    products = OuterProducts(torch.ones(3, 200, 60), torch.ones(3, 200, 50))
    found = largest_allocation(lambda: squared_norms([products], (60, 50), 1 << 30))
    assert found == 3 * 60 * 50 * 4
