from dataclasses import replace

import pytest
import ragged_batches
import torch
from dense_derivatives import dense_hessian, flat, group_indices
from transformers import LlamaForCausalLM

from isoloss.curvature.derivatives import gradient, hessian_vector_product, sign_probe, trainable_parameters
from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.curvature.hessian_trace import SENTENCES_A_PROBE, hessian_trace
from isoloss.curvature.loss import BatchLoss
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import pcfg
from isoloss.models.transformers import (
    GPT2Transformer,
    PostLayerNormTransformer,
    PreLayerNormTransformer,
    Shape,
)
from isoloss.objectives.batch import sentence_averaged_loss, sentences_between
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.objectives.soft_labels import with_exact_labels
from isoloss.results.estimate import mean_over_members
from llama_transformer import LlamaTransformer
from thorough_cases import others_thorough
from tiny_models import ARCHITECTURES, far_from_the_start

OBJECTIVE = MaskedObjective()


def small_model(architecture, layers=1):
    """One layer, small enough for dense second derivatives; weights far from their small initial values."""
    model = architecture(Shape(4, 2, layers, 4)).build(ragged_batches.WORDS, ragged_batches.LENGTH, seed=0)
    return far_from_the_start(model.double()).eval()


def next_words():
    return NextWordObjective().every_prediction(ragged_batches.sentences())


CASES = {
    "post-LN": (PostLayerNormTransformer, OBJECTIVE, ragged_batches.several_masks),
    "pre-LN": (PreLayerNormTransformer, OBJECTIVE, ragged_batches.several_masks),
    "GPT-2": (GPT2Transformer, NextWordObjective(), next_words),
    "Llama": (LlamaTransformer, NextWordObjective(), next_words),
}


@pytest.fixture(params=others_thorough(CASES))
def case(request):
    architecture, objective, batch = CASES[request.param]
    return small_model(architecture), objective, batch()


def precision(model):
    # Llama's norms and rotations are computed in float32 whatever the model's own precision.
    return 1e-4 if isinstance(model, LlamaForCausalLM) else 1e-9


def test_the_loss_is_the_training_loss(case):
    model, objective, batch = case
    ours = BatchLoss(model, objective, batch).mean()
    torch.testing.assert_close(ours, sentence_averaged_loss(objective.logits(model, batch), batch))


def test_products_are_the_dense_hessians_and_it_splits_into_fisher_and_residual(case):
    model, objective, batch = case
    parameters = trainable_parameters(model)
    hessian = dense_hessian(BatchLoss(model, objective, batch).mean, parameters)
    residual = dense_hessian(BatchLoss(model, objective, batch).label_surprise, parameters)
    probe = sign_probe(parameters, "any")
    product = hessian_vector_product(BatchLoss(model, objective, batch).mean, parameters, probe)
    torch.testing.assert_close(
        flat(product.values()), hessian @ flat(probe.values()), rtol=precision(model), atol=1e-6
    )

    # The Fisher information from every prediction's Jacobian, without any labels.
    logits = objective.logits(model, batch)
    p = logits.softmax(1).detach()
    weights = 1 / (len(batch) * torch.bincount(batch.rows)[batch.rows].double())
    fisher = torch.zeros_like(hessian)
    leaves = list(parameters.values())
    for j in range(len(logits)):
        rows = torch.autograd.grad(
            logits[j], leaves, torch.eye(logits.shape[1]).double(),
            is_grads_batched=True, retain_graph=True, materialize_grads=True, allow_unused=True,
        )  # fmt: skip
        jacobian = torch.cat([row.flatten(1) for row in rows], dim=1)
        fisher += weights[j] * jacobian.T @ (p[j].diag() - torch.outer(p[j], p[j])) @ jacobian
    torch.testing.assert_close(fisher + residual, hessian, rtol=precision(model), atol=1e-5)


def fisher_part(trace):
    return mean_over_members(sum(trace.fisher.values()), trace.sentences)


def test_groups_are_the_probes_own_products(case):
    """The whole routine on one cluster against the dense matrix, probe looked up."""
    model, objective, batch = case
    parameters = trainable_parameters(model)
    trace = hessian_trace(model, [batch], objective, seed=5)
    half = sentences_between(batch, 3, 6)
    residual = dense_hessian(BatchLoss(model, objective, half, 3).label_surprise, parameters)
    probe = flat(sign_probe(parameters, "5 probe 3").values())
    for name, places in group_indices(parameters).items():
        expected = float(probe[places] @ (residual @ probe)[places])
        assert float(trace.residual[name][1]) == pytest.approx(expected, rel=precision(model), abs=1e-5)
    fisher = fisher_trace(model, [batch], objective, seed=5)
    for name, values in fisher.groups.items():
        torch.testing.assert_close(trace.fisher[name][1], values[3:].mean())
    parts = sum(estimate.value for estimate in trace.group_estimates.values())
    assert parts == pytest.approx(trace.estimate.value, rel=1e-9)


@pytest.mark.thorough
def test_clusters(case):
    model, objective, batch = case
    batches = [batch, sentences_between(batch, 0, 1), sentences_between(batch, 1, 4)]
    trace = hessian_trace(model, batches, objective)
    assert trace.sentences.tolist() == [3, 3, 1, 1, 2]
    assert int(trace.sentences.max()) <= SENTENCES_A_PROBE
    cut = hessian_trace(model, batches, objective, sentences=7)
    assert cut.stopped == "the number of sentences allowed was reached"
    torch.testing.assert_close(cut.values, trace.values[:3])


@pytest.mark.parametrize("architecture", others_thorough(ARCHITECTURES))
def test_at_the_distribution_itself_nothing_is_left_beside_the_fisher(architecture):
    """Lemma 3.2, with the model's own distribution for the labels; under the data's labels there is a gap."""
    model, batch = small_model(architecture), ragged_batches.one_mask()
    of_model = replace(batch, soft_targets=OBJECTIVE.logits(model, batch).softmax(1).detach())
    own = hessian_trace(model, [of_model], OBJECTIVE)
    assert abs(own.residual_estimate.value) < 1e-12 < fisher_part(own).value
    data = hessian_trace(model, [batch], OBJECTIVE)
    assert abs(data.residual_estimate.value) > 1e-3
    assert fisher_part(data) == fisher_part(own)


@pytest.mark.parametrize("objective", [MaskedObjective(), NextWordObjective()])
def test_exact_distributions_as_labels(objective):
    """A distribution inserted by hand, one prediction after the other, through the language's own tables."""
    language = pcfg(
        parse_grammar("S -> A B [0.6] | B [0.4]\nA -> 'a' [0.3] | 'b' [0.7]\nB -> 'c' [0.5] | 'b' [0.5]")
    )
    sentences = language.sample(12, torch.Generator().manual_seed(0))
    batch = objective.draw(sentences, torch.Generator().manual_seed(1))
    distribution = with_exact_labels(batch, language, objective).soft_targets
    torch.testing.assert_close(distribution.sum(1), torch.ones(len(distribution)).double())
    if isinstance(objective, MaskedObjective):
        tables = language.masked_log_probabilities(sentences).exp()
        expected = tables[batch.rows, batch.positions - 1]
        torch.testing.assert_close(distribution[:, 3:], expected)
    else:
        tables = language.next_log_probabilities(sentences).exp()
        expected = tables[batch.rows, batch.positions]
        torch.testing.assert_close(torch.cat([distribution[:, 3:], distribution[:, 1:2]], dim=1), expected)
    # Each label is possible under its distribution.
    assert (distribution[torch.arange(len(distribution)), batch.targets] > 0).all()


def test_frozen_parameters_have_no_part():
    model, batch = small_model(PreLayerNormTransformer), ragged_batches.one_mask()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.endswith("decoder.bias") or name.endswith("lm_head.bias"))
    only = hessian_trace(model, [batch], OBJECTIVE)
    assert list(only.fisher) == ["head"]
    assert len(only.parameters.frozen) == len(list(model.parameters())) - 1
    # The scores are linear in the output bias: the Hessian is the Fisher information.
    assert float(only.residual["head"].abs().max()) == 0


def test_gradients_of_parameters_that_the_loss_does_not_touch_are_zero():
    x, y = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
    found = gradient(lambda: x.sum(), {"x": x, "y": y})
    assert found["x"].tolist() == [1, 1]
    assert found["y"].tolist() == [0, 0, 0]
    assert x.grad is None
