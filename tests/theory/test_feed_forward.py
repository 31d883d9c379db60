import pytest
import torch
from torch import nn

from isoloss.models.transformers import PostLayerNormTransformer
from isoloss.theory.enlarged_identities import (
    feed_forward,
    feed_forward_weights,
    fisher_by_kind,
    random_tokens,
    random_transformer,
    widened,
)


def hessian(weights, x, y, slope):
    """The dense Hessian of the cross entropy, float64, by autograd."""
    sizes = [weight.numel() for weight in weights]

    def loss(flat):
        parts = [part.view_as(old) for part, old in zip(flat.split(sizes), weights, strict=True)]
        return nn.functional.cross_entropy(feed_forward(parts, x, slope), y)

    flat = torch.cat([weight.flatten() for weight in weights])
    return torch.autograd.functional.hessian(loss, flat), sizes


@pytest.mark.parametrize("slope", [0.0, 0.2])
@pytest.mark.parametrize(
    "widths",
    [
        (3, 4, 2),
        *(pytest.param(each, marks=pytest.mark.thorough) for each in ((3, 4, 5, 2), (2, 5, 4, 6, 3))),
    ],
)
def test_output_and_trace_of_the_hessian_are_unchanged(widths, slope):
    small = feed_forward_weights(widths, seed=1, slope=slope)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, widths[0], generator=generator, dtype=torch.float64)
    y = torch.randint(widths[-1], (6,), generator=generator)
    matrix, sizes = hessian(small, x, y, slope)
    assert float(matrix.trace()) > 0.1
    for factor in (2, 3):
        large = widened(small, factor)
        outputs = feed_forward(small, x, slope)
        torch.testing.assert_close(feed_forward(large, x, slope), outputs, rtol=1e-12, atol=1e-13)
        wide, wide_sizes = hessian(large, x, y, slope)
        for part, wide_part in zip(
            matrix.diagonal().split(sizes), wide.diagonal().split(wide_sizes), strict=True
        ):
            torch.testing.assert_close(wide_part.sum(), part.sum(), rtol=1e-10, atol=1e-12)


def test_one_copy_is_a_copy():
    small = feed_forward_weights((2, 3, 1), seed=0)
    copy = widened(small, 1)
    assert all(torch.equal(a, b) for a, b in zip(small, copy, strict=True))
    copy[0].add_(1)
    assert not torch.equal(small[0], copy[0])


def test_weights_follow_the_seed_and_keep_the_scale_of_what_passes_through():
    assert torch.equal(feed_forward_weights((2, 3, 1), 5)[0], feed_forward_weights((2, 3, 1), 5)[0])
    weights = feed_forward_weights((1000, 1000, 1000, 1000), seed=1, slope=0.1)
    x = torch.randn(50, 1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert float(feed_forward(weights, x, 0.1).square().mean()) == pytest.approx(1, rel=0.1)


@pytest.mark.thorough
def test_a_trace_is_a_mean_over_sentences():
    model, ids = random_transformer(PostLayerNormTransformer, seed=1), random_tokens(2, seed=1)
    both, (first, second) = (
        fisher_by_kind(model, ids, 1),
        (fisher_by_kind(model, one[None], 1) for one in ids),
    )
    assert both == pytest.approx({kind: (first[kind] + second[kind]) / 2 for kind in both})
