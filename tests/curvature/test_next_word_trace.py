"""The trace for next-word prediction: many predictions per sentence, and causal models."""

import pytest
import ragged_batches
import torch
from dense_norms import dense_traces, dense_values

from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.curvature.per_sentence.traces import sentence_fisher_traces
from isoloss.languages.sentences import Sentences
from isoloss.models.transformers import GPT2Transformer, Shape
from isoloss.objectives.next_word import NextWordObjective
from llama_transformer import LlamaTransformer
from thorough_cases import others_thorough
from tiny_models import far_from_the_start

OBJECTIVE = NextWordObjective()
TOKENS = 5


@pytest.fixture(params=others_thorough([GPT2Transformer, LlamaTransformer]))
def model(request):
    architecture = request.param(Shape(8, 2, 2, 12))
    model = architecture.build(ragged_batches.WORDS, ragged_batches.LENGTH, seed=0).double()
    return far_from_the_start(model).train()


@pytest.fixture
def batch():
    return OBJECTIVE.every_prediction(ragged_batches.sentences())


def test_values_are_those_of_dense_gradients_with_the_seeds_signs(model, batch):
    trace = fisher_trace(model, [batch], OBJECTIVE, seed=9)
    assert model.training
    torch.testing.assert_close(trace.values, dense_values(model, OBJECTIVE, batch, 9), rtol=1e-9, atol=0)


def test_sentences_that_are_predicted_whole_are_measured_in_batch(model):
    """As many predictions as words: the output layer's rows are told from those of all words."""
    equal = Sentences.from_lists([[0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 1], [1, 0, 0]])
    found = sentence_fisher_traces(model, OBJECTIVE, OBJECTIVE.every_prediction(equal), seed=2)
    assert found.compared
    assert "per-sentence gradients" not in found.ways.values()


@pytest.mark.thorough
def test_the_mean_over_signs_is_the_dense_trace(model, batch):
    dense = dense_traces(model, OBJECTIVE, batch)
    # Equal sentences have their own signs.
    times, drawn = 400, ragged_batches.sentences()
    repeated = Sentences(drawn.ids.repeat(times, 1), drawn.lengths.repeat(times))
    trace = fisher_trace(model, [OBJECTIVE.every_prediction(repeated)], OBJECTIVE, seed=3)
    values = trace.values.view(times, len(batch))
    standard_error = values.std(0) / times**0.5
    assert float(((values.mean(0) - dense) / standard_error).abs().max()) < 4
    # The error bar is narrow enough to notice a trace that is summed or averaged wrongly.
    assert float((standard_error / dense).max()) < 0.1
