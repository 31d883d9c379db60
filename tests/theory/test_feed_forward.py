import pytest
import torch
from torch import nn
from torch.func import functional_call

from isoloss.errors import BadInput
from isoloss.theory.enlarged_identities import FeedForward, widened


def hessian(network, x, y):
    """The dense Hessian of the cross entropy, float64, by autograd."""
    parameters = dict(network.named_parameters())
    names, shapes = list(parameters), [parameter.shape for parameter in parameters.values()]
    sizes = [shape.numel() for shape in shapes]

    def loss(flat):
        parts = flat.split(sizes)
        values = {name: part.view(shape) for name, part, shape in zip(names, parts, shapes, strict=True)}
        return nn.functional.cross_entropy(functional_call(network, values, (x,)), y)

    flat = torch.cat([parameter.detach().flatten() for parameter in parameters.values()])
    return torch.autograd.functional.hessian(loss, flat), sizes


@pytest.mark.parametrize("slope", [0.0, 0.2])
@pytest.mark.parametrize("widths", [(3, 4, 2), (3, 4, 5, 2), (2, 5, 4, 6, 3)])
def test_output_and_trace_of_the_hessian_are_unchanged(widths, slope):
    small = FeedForward(widths, seed=1, slope=slope).double()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, widths[0], generator=generator, dtype=torch.float64)
    y = torch.randint(widths[-1], (6,), generator=generator)
    matrix, sizes = hessian(small, x, y)
    assert float(matrix.trace()) > 0.1
    for factor in (2, 3):
        large = widened(small, factor)
        torch.testing.assert_close(large(x), small(x), rtol=1e-12, atol=1e-13)
        wide, wide_sizes = hessian(large, x, y)
        for part, wide_part in zip(
            matrix.diagonal().split(sizes), wide.diagonal().split(wide_sizes), strict=True
        ):
            torch.testing.assert_close(wide_part.sum(), part.sum(), rtol=1e-10, atol=1e-12)


def test_one_copy_is_a_copy():
    small = FeedForward((2, 3, 1), seed=0)
    copy = widened(small, 1)
    assert all(torch.equal(a, b) for a, b in zip(small.parameters(), copy.parameters(), strict=True))
    with torch.no_grad():
        copy.weights[0] += 1
    assert not torch.equal(small.weights[0], copy.weights[0])


def test_weights_follow_the_seed_and_keep_the_scale_of_what_passes_through():
    assert torch.equal(FeedForward((2, 3, 1), 5).weights[0], FeedForward((2, 3, 1), 5).weights[0])
    network = FeedForward((1000, 1000, 1000, 1000), seed=1, slope=0.1)
    x = torch.randn(50, 1000, generator=torch.Generator().manual_seed(0))
    assert float(network(x).detach().square().mean()) == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("widths", [(3, 2), (3, 0, 2), ()])
def test_widths_that_make_no_network_are_refused(widths):
    with pytest.raises(BadInput, match="hidden layers"):
        FeedForward(widths, seed=0)


def test_slopes_and_factors_that_make_no_sense_are_refused():
    with pytest.raises(BadInput, match="slope"):
        FeedForward((2, 3, 1), 0, slope=1.0)
    for factor in (0, -2):
        with pytest.raises(BadInput, match="integer"):
            widened(FeedForward((2, 3, 1), 0), factor)
