import pytest
import torch

from isoloss.corpora.token_sentences import TextCorpus
from isoloss.curvature.stopping import Stopping, measure_until
from isoloss.errors import BadInput
from isoloss.measurements.on_sentences.pretraining_loss import PretrainingLossQuantity, RunningSentenceLosses
from isoloss.measurements.prediction import MaskedTokens, NextToken, SpecialTokens
from isoloss.measurements.sampled_batches import SampledBatches
from tiny_text_models import text_model, text_tokenizer

TEXTS = ["a b c d e f g h a b", "c", "d e f", "g h", "a a b"]


def batches(causal):
    corpus = TextCorpus(TEXTS, range(1, 6), text_tokenizer(causal), longest=8)
    return SampledBatches(corpus, NextToken() if causal else MaskedTokens(0.4), 900, SpecialTokens(mask=3))


def losses(model, batches, memory_bytes=1 << 28):
    running = RunningSentenceLosses(model, batches.objective, memory_bytes)
    measure_until([running], batches, Stopping(), task="loss")
    return running.result()


@pytest.mark.parametrize("causal", [False, True])
def test_each_sentences_loss_is_the_mean_over_its_own_predictions(causal):
    model, made = text_model(causal).double(), batches(causal)
    found = losses(model, made)
    (batch,) = list(made)
    expected = []
    for row in range(len(batch)):
        ids = batch.input_ids[row][batch.attention_mask[row]]
        with torch.no_grad():
            log_p = model(input_ids=ids[None]).logits[0].log_softmax(1)
        own = [
            -float(log_p[position, target])
            for each, position, target in zip(batch.rows, batch.positions, batch.targets, strict=True)
            if each == row
        ]
        expected.append(sum(own) / len(own))
        assert int(found.predictions[row]) == len(own)
    torch.testing.assert_close(found.values, torch.tensor(expected).double(), rtol=1e-5, atol=1e-5)
    assert len(expected) == (4 if causal else 5)  # a single token has no next one


def test_memory_changes_nothing_and_the_token_average_weighs_by_predictions():
    model, made = text_model().double(), batches(causal=False)
    whole, small = losses(model, made), losses(model, made, memory_bytes=1)
    torch.testing.assert_close(whole.values, small.values)
    by_sentence, by_token = whole.records(900, "m", {})
    assert by_sentence.quantity == "pretraining_loss"
    assert by_sentence.value == pytest.approx(float(whole.values.mean()))
    weighted = (whole.values * whole.predictions).sum() / whole.predictions.sum()
    assert by_token.value == pytest.approx(float(weighted))


@pytest.mark.parametrize(("memory_bytes", "at_once"), [(1, False), (1 << 28, True)])
def test_the_memory_given_bounds_a_pass(memory_bytes, at_once):
    model, made = text_model(), batches(causal=False)
    running = PretrainingLossQuantity(5, 0).running(model, made.objective, memory_bytes)
    seen = []
    with model.register_forward_pre_hook(
        lambda _module, _args, given: seen.append(len(given["input_ids"])), with_kwargs=True
    ):
        measure_until([running], made, Stopping(), task="loss")
    assert (5 in seen) == at_once  # whether sentences are apart is tried on one and two of them


def test_a_loss_that_is_no_number_is_refused():
    model = text_model()
    with torch.no_grad():
        model.cls.predictions.bias[:] = float("nan")
    with pytest.raises(BadInput, match="scores for sentence 1 are not finite"):
        losses(model, batches(causal=False))
