import pytest
import torch
from small_problems import factor_problem

from isoloss.theory.bartlett_matrices import bartlett_matrices


def surprise(minimisers, context, word, parameters):
    return -minimisers.logits(parameters).log_softmax(1)[context, word]


def gradients_one_by_one(minimisers, parameters):
    for context, word in torch.ones_like(minimisers.distributions.distribution).nonzero().tolist():
        leaf = parameters.clone().requires_grad_(True)
        (gradient,) = torch.autograd.grad(surprise(minimisers, context, word, leaf), leaf)
        yield float(minimisers.distributions.joint[context, word]), (context, word), gradient


def test_each_matrix_agrees_with_its_definition_away_from_the_distribution():
    minimisers, parameters = factor_problem()
    found = bartlett_matrices(minimisers, parameters)
    probabilities = minimisers.distributions.weight[:, None] * minimisers.logits(parameters).softmax(1)
    fisher = covariance = mean = 0
    for joint, place, gradient in gradients_one_by_one(minimisers, parameters):
        fisher = fisher + probabilities[place] * torch.outer(gradient, gradient)
        covariance = covariance + joint * torch.outer(gradient, gradient)
        mean = mean + joint * gradient
    assert torch.allclose(found.fisher, fisher, atol=1e-13)
    assert torch.allclose(found.covariance, covariance - torch.outer(mean, mean), atol=1e-13)
    assert min(found.lemma_gap, found.covariance_gap, found.hessian_gap) > 0.05

    def gradient_at(at):
        return sum(joint * gradient for joint, _, gradient in gradients_one_by_one(minimisers, at))

    step = 1e-5
    for column in range(0, len(parameters), 7):
        along = torch.zeros_like(parameters)
        along[column] = step
        difference = (gradient_at(parameters + along) - gradient_at(parameters - along)) / (2 * step)
        assert torch.allclose(found.hessian[:, column], difference, atol=1e-8)


def test_trace_and_whitened_scores_are_those_of_the_fisher_information():
    minimisers, parameters = factor_problem()
    fisher = bartlett_matrices(minimisers, parameters).fisher
    rows = minimisers.whitened_scores(parameters)
    assert torch.allclose(rows.T @ rows, fisher, atol=1e-13)
    assert minimisers.trace(parameters) == pytest.approx(float(fisher.trace()))
