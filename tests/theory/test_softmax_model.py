import itertools

import pytest
import torch
from small_problems import factor_problem, matrices_of, small_language

from isoloss.errors import BadInput
from isoloss.languages.dyck import dyck
from isoloss.languages.sentences import Sentences
from isoloss.models.transformers import PostLayerNormTransformer, PreLayerNormTransformer, Shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.theory.softmax_model import (
    ContextDistributions,
    enumerated_contexts,
    enumerated_transformer,
    parameter_vector,
)


def test_contexts_and_distributions_agree_with_counting_all_sentences():
    language = small_language(words=2, length=3)
    contexts = enumerated_contexts(language)
    counted = {}
    for words in itertools.product(range(2), repeat=3):
        probability = float(language.log_probability(Sentences.from_lists([list(words)])).exp())
        for t in range(3):
            context = (*words[:t], None, *words[t + 1 :])
            counted.setdefault(context, torch.zeros(2, dtype=torch.float64))[words[t]] += probability / 3
    assert len(contexts.input_ids) == len(counted) == 12
    for row, position, joint in zip(
        contexts.input_ids.tolist(),
        contexts.mask_positions.tolist(),
        contexts.distributions.joint,
        strict=True,
    ):
        context = tuple(None if place == position else row[place] - 3 for place in range(1, 4))
        assert torch.allclose(joint, counted[context], atol=1e-14)


def test_kl_is_the_definition_and_keeps_its_digits_near_zero():
    distributions = ContextDistributions(torch.ones(1).double(), torch.tensor([[0.2, 0.3, 0.5]]).double())
    logits = torch.tensor([[0.1, -0.4, 0.7]]).double()
    by_definition = (
        distributions.distribution * (distributions.distribution.log() - logits.log_softmax(1))
    ).sum()
    assert torch.allclose(distributions.kl(logits), by_definition)
    shift = 1e-9 * torch.tensor([[1.0, 0.0, -1.0]]).double()
    variance = (distributions.distribution * shift**2).sum() - (distributions.distribution * shift).sum() ** 2
    assert torch.isclose(distributions.kl(distributions.distribution.log() + shift), variance / 2, rtol=1e-5)


def test_languages_that_cannot_be_enumerated_are_refused():
    with pytest.raises(BadInput, match="each possible"):
        enumerated_contexts(dyck(4))
    # Of sentences of 14 words, 14 times 2^13, which are more than 100,000; of 13 they are fewer.
    with pytest.raises(BadInput, match="smaller language"):
        enumerated_contexts(small_language(words=2, length=14))


@pytest.mark.parametrize("architecture", [PostLayerNormTransformer, PreLayerNormTransformer])
def test_an_enumerated_transformer_is_the_transformer(architecture):
    language = small_language(words=2, length=3)
    contexts = enumerated_contexts(language)
    model = architecture(Shape(8, 2, 1, 16), 0.0, "eager").build(2, 3, seed=0).double().eval()
    every = MaskedObjective().mask_every_position(
        Sentences.from_lists([list(words) for words in itertools.product(range(2), repeat=3)])
    )
    expected = MaskedObjective().outcomes(MaskedObjective().logits(model, every))
    parameters = parameter_vector(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()  # only the vector matters
    logits = enumerated_transformer(model, contexts)(parameters)
    for row, logit in zip(every.input_ids, expected, strict=True):
        place = int((contexts.input_ids == row).all(1).nonzero())
        assert torch.allclose(logits[place], logit, atol=1e-12)


def surprise(minimisers, context, word, parameters):
    return -minimisers.logits(parameters).log_softmax(1)[context, word]


def gradients_one_by_one(minimisers, parameters):
    for context, word in torch.ones_like(minimisers.distributions.distribution).nonzero().tolist():
        leaf = parameters.clone().requires_grad_(True)
        (gradient,) = torch.autograd.grad(surprise(minimisers, context, word, leaf), leaf)
        yield float(minimisers.distributions.joint[context, word]), (context, word), gradient


def test_each_matrix_agrees_with_its_definition_away_from_the_distribution():
    minimisers, parameters = factor_problem()
    found = matrices_of(minimisers, parameters)
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
    fisher = matrices_of(minimisers, parameters).fisher
    rows = minimisers.whitened_scores(parameters)
    assert torch.allclose(rows.T @ rows, fisher, atol=1e-13)
    assert minimisers.trace(parameters) == pytest.approx(float(fisher.trace()))
