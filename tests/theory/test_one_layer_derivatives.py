import pytest
import torch

from isoloss.theory.lemma_g_4 import dense_trace
from isoloss.theory.one_layer_transformer import (
    OneLayerTransformer,
    hessian_trace,
    masked_strings,
    output_gradients,
    squared_gradient_norms,
    zero_loss_trace,
)

STRINGS = masked_strings(4)


def gaussian_model(seed, neurons=3, rows=2):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((rows, 8), (rows, 8), (neurons, 8), (neurons,))
    return OneLayerTransformer(
        *(torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    )


def test_the_model_is_the_papers():
    model = gaussian_model(901)
    tokens = STRINGS.tokens[:5]
    for x, found in zip(tokens, model.outputs(tokens), strict=True):
        scores = torch.stack([(model.query @ x[0]) @ (model.key @ x_j) for x_j in x])
        attended = sum(a * x_j for a, x_j in zip(scores.softmax(0), x, strict=True))
        output = model.output @ (model.value @ attended).clamp(min=0) / 3
        assert float(found) == pytest.approx(float(output), abs=1e-12)
    again = model.with_flat(model.flat())
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True))


@pytest.mark.parametrize("seed", [901, 902, 903])
def test_the_trace_in_closed_form_is_that_of_the_dense_hessian(seed):
    model = gaussian_model(seed)
    dense = dense_trace(model, STRINGS)
    assert float(hessian_trace(model, STRINGS)) == pytest.approx(dense, rel=1e-11)
    # Far from zero loss the lemma's short form is not the trace.
    assert float(zero_loss_trace(model, STRINGS)) != pytest.approx(dense, rel=1e-3)


def test_gradients_are_those_of_autograd():
    model = gaussian_model(904)
    jacobian = torch.autograd.functional.jacobian(
        lambda flat: model.with_flat(flat).outputs(STRINGS.tokens), model.flat()
    )
    gradients = output_gradients(model, STRINGS.tokens)
    torch.testing.assert_close(gradients, jacobian, rtol=1e-11, atol=1e-13)
    norms = squared_gradient_norms(model, STRINGS.tokens)
    torch.testing.assert_close(norms, jacobian.square().sum(1), rtol=1e-11, atol=1e-13)
