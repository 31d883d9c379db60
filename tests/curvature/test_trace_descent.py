"""The rate at which the drift lowers the trace, against dense derivatives in float64."""

from itertools import permutations
from statistics import fmean, pvariance

import pytest
import torch
from dense_derivatives import dense_hessian, flat, scores
from ragged_batches import equally_long as batch
from torch.nn.attention import SDPBackend, sdpa_kernel

from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.trace_descent import (
    damped,
    directional_trace_gradient,
    fisher_trace_gradient,
    fisher_vector_product,
    trace_descent_rate,
)
from isoloss.errors import BadInput
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.objectives.batch import Batch
from isoloss.objectives.masked import MaskedObjective
from tiny_models import partly_frozen, tiny_model

MASKED = MaskedObjective()


@pytest.fixture(scope="module")
def model():
    return tiny_model(PreLayerNormTransformer, 2, 3).eval()


def exact_trace(model, masked):
    """Σ_y p_y ||∇ log p_y||², the mean over predictions, as a differentiable function."""
    squares = (
        log_p.exp() @ gradients.square().sum(1)
        for log_p, gradients in scores(model, MASKED, masked, create_graph=True)
    )
    return sum(squares) / len(masked.rows)


def dense_gradient(model, masked):
    leaves = list(trainable_parameters(model).values())
    with sdpa_kernel(SDPBackend.MATH):
        return flat(torch.autograd.grad(exact_trace(model, masked), leaves, materialize_grads=True))


def dense_fisher(model, masked):
    fixed = MASKED.logits(model, masked).softmax(dim=1).detach()

    def divergence():
        log_probabilities = MASKED.logits(model, masked).log_softmax(dim=1)
        return -(fixed * log_probabilities).sum() / len(log_probabilities)

    return dense_hessian(divergence, trainable_parameters(model))


def fisher_of_scores(model, masked):
    """Σ_y p_y ∇ log p_y ∇ log p_yᵀ, the mean over predictions: many times faster than second derivatives."""
    of_each = scores(model, MASKED, masked)
    rows = torch.cat([log_p.detach().mul(0.5).exp()[:, None] * found for log_p, found in of_each])
    return rows.T @ rows / len(masked.rows)


def test_over_all_signs_the_gradient_is_that_of_the_exact_trace(model) -> None:
    masked = batch(1)
    words = MASKED.logits(model, masked).shape[1]
    assert words <= 8
    every = [torch.tensor([[pattern]], dtype=torch.uint8) for pattern in range(2**words)]
    gradients = [directional_trace_gradient(model, MASKED, masked, bits) for bits in every]
    mean = torch.stack(gradients).mean(dim=0)
    assert torch.allclose(mean, dense_gradient(model, masked), rtol=1e-8, atol=1e-10)


def test_a_batch_is_the_mean_of_its_sentences(model) -> None:
    whole = fisher_trace_gradient(model, MASKED, batch(4), seed=5)
    halves = batch(4).part(0, 2), batch(4).part(2, 4)
    parts = [
        fisher_trace_gradient(model, MASKED, half, seed=5, first_sentence=first)
        for first, half in zip((0, 2), halves, strict=True)
    ]
    assert torch.allclose(whole, (parts[0] + parts[1]) / 2)


def test_another_seed_draws_other_signs(model) -> None:
    one, other = (fisher_trace_gradient(model, MASKED, batch(2), seed=seed) for seed in (1, 2))
    assert not torch.allclose(one, other)


def test_products_with_the_fisher_information_are_those_of_the_dense_matrix(model) -> None:
    masked, model = batch(3), partly_frozen(model, "layer.1.output", "embeddings")
    dense = dense_fisher(model, masked)
    vector = torch.randn(len(dense), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    assert torch.allclose(fisher_vector_product(model, MASKED, masked, vector), dense @ vector, atol=1e-9)
    assert torch.allclose(fisher_of_scores(model, masked), dense, atol=1e-9)


@pytest.mark.parametrize("distance", [0.0, 0.3, 20.0])
def test_damping_is_the_exponential_of_the_matrix(distance: float) -> None:
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(9, 6, generator=generator, dtype=torch.float64)
    matrix, vector = root @ root.T, torch.randn(9, generator=generator, dtype=torch.float64)
    expected = torch.linalg.matrix_exp(-distance * matrix) @ vector
    assert torch.allclose(damped(matrix.mv, vector, distance, 20), expected, atol=1e-9)
    assert torch.equal(damped(matrix.mv, torch.zeros(9).double(), distance, 4), torch.zeros(9).double())


def test_the_rate_is_the_mean_over_pairs_of_different_parts(model) -> None:
    masked, model = batch(8), partly_frozen(model, "layer.1.output", "embeddings")
    found = trace_descent_rate(model, MASKED, masked, 2.0, seed=1)
    starts = (0, 2, 4, 6)
    parts = [
        fisher_trace_gradient(model, MASKED, masked.part(k, k + 2), seed=1, first_sentence=k) for k in starts
    ]
    values, vectors = torch.linalg.eigh(fisher_of_scores(model, masked))
    damped_half = torch.stack(parts) @ vectors * (-values.clamp(min=0)).exp()
    pairs = (damped_half @ damped_half.T).tolist()

    def mean_over(kept: set[int]) -> float:
        return fmean(pairs[one][other] for one, other in permutations(kept, 2))

    without = [mean_over({0, 1, 2, 3} - {part}) for part in range(4)]
    assert found.value == pytest.approx(mean_over({0, 1, 2, 3}), rel=1e-6)
    assert found.standard_error == pytest.approx((3 * pvariance(without)) ** 0.5, rel=1e-6)
    assert found.n == 4


def test_a_sentence_of_many_predictions_weighs_as_much_as_one_of_few(model) -> None:
    two = batch(2)
    rows, positions = torch.tensor([0, 1, 1, 1]), torch.tensor([2, 1, 2, 3])
    mixed = Batch(two.input_ids, two.attention_mask, rows, positions, two.input_ids[rows, positions])
    parameters = sum(parameter.numel() for parameter in trainable_parameters(model).values())
    vector = torch.randn(parameters, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    first, second = (
        fisher_vector_product(model, MASKED, mixed.part(number, number + 1), vector) for number in (0, 1)
    )
    whole = fisher_vector_product(model, MASKED, mixed, vector)
    assert torch.allclose(whole, (first + second) / 2, atol=1e-12)


def test_what_gives_no_rate_is_refused(model) -> None:
    with pytest.raises(BadInput, match="a distance of at least 0 and 4 sentences"):
        trace_descent_rate(model, MASKED, batch(3), 1.0)
    with pytest.raises(BadInput, match="a distance of at least 0"):
        trace_descent_rate(model, MASKED, batch(8), float("nan"))
    with pytest.raises(BadInput, match="at least 1 product"):
        trace_descent_rate(model, MASKED, batch(8), 1.0, products=0)


def test_words_whose_probability_underflows_have_a_gradient() -> None:
    model = tiny_model(PreLayerNormTransformer, 2, 3).eval()
    with torch.no_grad():
        model.lm_head.decoder.bias[-1] = -3000.0
    masked = batch(4)
    assert (MASKED.logits(model, masked).softmax(dim=1)[:, -1] == 0).all()
    gradient = fisher_trace_gradient(model, MASKED, masked)
    assert gradient.isfinite().all()
    assert gradient.norm() > 0


def test_scores_that_are_not_finite_are_refused() -> None:
    model = tiny_model(PreLayerNormTransformer, 2, 3).eval()
    with torch.no_grad():
        model.lm_head.decoder.bias[0] = float("nan")
    with pytest.raises(BadInput, match="scores for sentence 3 are not finite"):
        fisher_trace_gradient(model, MASKED, batch(1), first_sentence=2)
