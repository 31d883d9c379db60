"""The trace for next-word prediction: many predictions per sentence, and causal models."""

import pytest
import ragged_batches
import torch
from dense_norms import noise_of_the_output_layer

from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.curvature.per_sentence.directions import fisher_directions, sign_bits, signs_of
from isoloss.languages.sentences import Sentences
from isoloss.models.shapes import Shape
from isoloss.models.transformers import GPT2Transformer, LlamaTransformer
from isoloss.objectives.batch import sentences_of
from isoloss.objectives.next_word import NextWordObjective

OBJECTIVE = NextWordObjective()
TOKENS = 5


@pytest.fixture(params=[GPT2Transformer, LlamaTransformer])
def model(request):
    architecture = request.param(Shape(8, 2, 2, 12))
    model = architecture.build(ragged_batches.WORDS, ragged_batches.LENGTH, seed=0).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model.train()


@pytest.fixture
def batch():
    return OBJECTIVE.every_prediction(ragged_batches.sentences())


def test_values_are_those_of_dense_gradients_with_the_seeds_signs(model, batch):
    trace = fisher_trace(model, [batch], OBJECTIVE, seed=9)
    assert model.training
    model.eval()
    parameters = list(model.parameters())
    for sentence in range(len(batch)):
        piece = sentences_of(batch, torch.tensor([sentence]))
        events = len(piece.targets)
        logits = OBJECTIVE.logits(model, piece)
        bits = sign_bits(torch.tensor([sentence]), torch.tensor([events]), TOKENS, seed=9)
        signs = signs_of(bits, TOKENS, torch.float64)
        drawn = fisher_directions(logits.detach(), signs)
        gradients = torch.autograd.grad((logits * drawn.cotangents).sum(), parameters)
        squared = sum(float(g.square().sum()) for g in gradients)
        noise = float(noise_of_the_output_layer(model, OBJECTIVE, piece, drawn))
        assert float(trace.values[sentence]) == pytest.approx((squared - noise) / events, rel=1e-9)


def test_the_mean_over_signs_is_the_dense_trace(model, batch):
    """Against Σ_y p_y ||∇ log p_y||² of every event, one backward pass per label."""
    model.eval()
    parameters = list(model.parameters())
    log_p = OBJECTIVE.logits(model, batch).log_softmax(1)
    dense = torch.zeros(len(batch), dtype=torch.float64)
    for j, row in enumerate(batch.rows.tolist()):
        for label in range(TOKENS):
            gradients = torch.autograd.grad(log_p[j, label], parameters, retain_graph=True)
            squared = sum(g.square().sum() for g in gradients)
            dense[row] += (log_p[j, label].exp() * squared).detach()
    dense /= torch.bincount(batch.rows)
    # Equal sentences have their own signs.
    times, drawn = 400, ragged_batches.sentences()
    repeated = Sentences(drawn.ids.repeat(times, 1), drawn.lengths.repeat(times))
    trace = fisher_trace(model, [OBJECTIVE.every_prediction(repeated)], OBJECTIVE, seed=3)
    values = trace.values.view(times, len(batch))
    standard_error = values.std(0) / times**0.5
    assert float(((values.mean(0) - dense) / standard_error).abs().max()) < 4
    # The error bar is narrow enough to notice a trace that is summed or averaged wrongly.
    assert float((standard_error / dense).max()) < 0.1


def test_chunks_do_not_matter(model, batch):
    whole = fisher_trace(model, [batch], OBJECTIVE, seed=1)
    in_pieces = fisher_trace(model, [batch], OBJECTIVE, seed=1, memory_bytes=1)
    torch.testing.assert_close(whole.values, in_pieces.values, rtol=1e-10, atol=0)
    assert whole.parameters.count == sum(p.numel() for p in model.parameters())
