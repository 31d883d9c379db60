"""What operations take within themselves, which no count of living tensors sees."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from isoloss.curvature.per_sentence import factors
from isoloss.curvature.per_sentence.factors import OuterProducts, squared_norms
from isoloss.objectives.evaluation import _gradients_are_finite


def largest_allocation(work: Callable[[], object]) -> int:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        work()
    return max(event.cpu_memory_usage for event in found.events())


def test_looking_at_a_gradient_takes_no_more_than_the_gradient() -> None:
    layer = nn.Linear(300, 400, bias=False)
    scores = layer(torch.ones(1, 300)).sum()
    assert largest_allocation(lambda: _gradients_are_finite(scores, layer)) == layer.weight.nbytes


@pytest.mark.parametrize("most_copied", [3000, 2999])  # a sentence's matrix, and not even that
def test_norms_through_matrices_copy_few_of_them_into_double_precision(
    most_copied: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factors, "MOST_COPIED", most_copied)
    products = OuterProducts(torch.ones(3, 200, 60), torch.ones(3, 200, 50))
    norms = torch.full((3,), 3000 * 200.0**2, dtype=torch.float64)
    assert torch.equal(squared_norms([products], (60, 50), 1 << 30), norms)
    found = largest_allocation(lambda: squared_norms([products], (60, 50), 1 << 30))
    assert found == 3 * 60 * 50 * 4
