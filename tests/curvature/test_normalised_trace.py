import pytest
import ragged_batches
import torch
from two_layers import FromCounts, TwoLayers

from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.fisher_trace import fisher_trace, normalised_trace
from isoloss.curvature.per_sentence.traces import DiffersAloneError, sentence_fisher_traces
from isoloss.measurements.fixed_sentences import FixedSentences
from isoloss.measurements.on_sentences.traces import NormalisedTraceQuantity
from isoloss.measurements.quantity import Subject
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.objectives.batch import sentences_between
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.pretrained import EqualLengths
from isoloss.progress import silent
from tiny_models import partly_frozen, tiny_model

OBJECTIVE = MaskedObjective()


@pytest.fixture
def model():
    return tiny_model(PreLayerNormTransformer, ragged_batches.WORDS, ragged_batches.LENGTH)


def test_a_tensor_without_numbers_adds_nothing(model):
    before = normalised_trace(model, [ragged_batches.several_masks()], OBJECTIVE)
    model.empty = torch.nn.Parameter(torch.zeros(0, 8))
    after = normalised_trace(model, [ragged_batches.several_masks()], OBJECTIVE)
    torch.testing.assert_close(after.by_tensor, before.by_tensor)


def test_each_tensors_trace_is_weighted_by_its_own_mean_square(model):
    """The trace of a model whose other tensors are frozen, with the same signs."""
    batch = ragged_batches.several_masks()
    partly_frozen(model, "layer.1", "word_embeddings")
    found = normalised_trace(model, [batch], OBJECTIVE, seed=3)
    parameters = trainable_parameters(model)
    expected = torch.zeros(6, dtype=torch.float64)
    for name, parameter in parameters.items():
        if name.endswith("key.bias"):  # adds to all scores of a query alike, so that its gradient is zero
            continue
        model.requires_grad_(False)
        parameter.requires_grad_(True)
        expected += fisher_trace(model, [batch], OBJECTIVE, seed=3).values * parameter.square().mean().item()
    torch.testing.assert_close(found.by_tensor, expected, rtol=1e-9, atol=1e-12)
    assert found.estimate.standard_error == pytest.approx(float(expected.std() / 6**0.5))


@pytest.mark.thorough
def test_where_a_layout_is_not_understood_sentences_are_taken_one_at_a_time(model, monkeypatch):
    """As of the trace itself, which is measured before: the verdict on two models must not fail after it."""
    batch = ragged_batches.several_masks()
    expected = normalised_trace(model, [batch], OBJECTIVE, seed=3)

    def puzzled(model, objective, batch, **settings):
        if not isinstance(objective, EqualLengths):
            raise DiffersAloneError("how this model lays out its sentences is not understood")
        return sentence_fisher_traces(model, objective, batch, **settings)

    monkeypatch.setattr("isoloss.curvature.fisher_trace.sentence_fisher_traces", puzzled)
    found = normalised_trace(model, [batch], OBJECTIVE, seed=3)
    torch.testing.assert_close(found.by_tensor, expected.by_tensor)


def test_the_whole_is_the_trace_times_the_mean_square_of_all_weights_that_are_not_frozen(model):
    model.get_input_embeddings().requires_grad_(False)
    batch = ragged_batches.several_masks()
    parts = [sentences_between(batch, 0, 2), sentences_between(batch, 2, 6)]
    found = normalised_trace(model, parts, OBJECTIVE, seed=3)
    trace = fisher_trace(model, [batch], OBJECTIVE, seed=3)
    weights = torch.cat([p.flatten() for p in trainable_parameters(model).values()])
    torch.testing.assert_close(found.whole, trace.values * weights.square().mean().item())
    assert found.parameters == trace.parameters


def test_rescaling_two_layers_leaves_it_as_it_is():
    batch = ragged_batches.one_mask()
    model = TwoLayers(tokens=5)
    plain = normalised_trace(model, [batch], FromCounts())
    trace = fisher_trace(model, [batch], FromCounts()).estimate.value
    with torch.no_grad():
        model.first.weight *= 8
        model.first.bias *= 8
        model.second.weight /= 8
    again = normalised_trace(model, [batch], FromCounts())
    torch.testing.assert_close(again.by_tensor, plain.by_tensor)
    assert fisher_trace(model, [batch], FromCounts()).estimate.value != pytest.approx(trace, rel=0.5)
    assert again.whole_estimate.value != pytest.approx(plain.whole_estimate.value, rel=0.5)


def test_records(model):
    batch = ragged_batches.one_mask()
    found = normalised_trace(model, [batch], OBJECTIVE)
    quantity, drawn = NormalisedTraceQuantity(6, 0), FixedSentences((batch,))
    tensor, whole = quantity.measure(
        model, drawn, Subject("step-3", OBJECTIVE, {"step": 3}, None), silent
    ).records
    assert (tensor.quantity, tensor.unit, tensor.n) == ("normalised_fisher_trace", "nats", 6)
    assert tensor.value == found.estimate.value
    assert (whole.quantity, whole.value) == ("wholly_normalised_fisher_trace", found.whole_estimate.value)
