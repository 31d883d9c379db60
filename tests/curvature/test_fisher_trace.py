import itertools
import math

import pytest
import ragged_batches
import torch
from dense_norms import dense_traces, dense_values

from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.curvature.per_sentence.norms import norms_along
from isoloss.curvature.per_sentence.traces import fisher_directions, sentence_fisher_traces
from isoloss.languages.sentences import Sentences
from isoloss.models.transformers import GPT2Transformer
from isoloss.objectives.batch import sentences_between, sentences_of
from isoloss.objectives.evaluation import bytes_kept_for_backward
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.results.estimate import paired_difference, sample_mean
from llama_transformer import LlamaTransformer
from thorough_cases import others_thorough
from tiny_models import tiny_model

OBJECTIVE, NEXT_WORD = MaskedObjective(), NextWordObjective()
TOKENS = 5


@pytest.fixture
def one_mask():
    return ragged_batches.one_mask()


def over_all_signs(model, piece):
    """The estimator's value for every one of the 2^(M v) sign vectors of a sentence."""
    masks = len(piece.targets)
    signs = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=masks * TOKENS)), dtype=torch.float64)
    batch = ragged_batches.repeated(piece, len(signs))
    model.eval()

    def draw(logits):
        return fisher_directions(logits, signs.view(-1, TOKENS))

    return sum(norms_along(model, OBJECTIVE, batch, draw).groups.values()) / masks


def single_sentences(model, batch):
    return {i: sentences_of(batch, torch.tensor([i])) for i in range(len(batch))}


def test_one_draw_for_two_masks_has_the_mean_of_their_traces(model, several_masks):
    dense = dense_traces(model, OBJECTIVE, several_masks)
    piece = single_sentences(model, several_masks)[1]
    assert len(piece.targets) == 2
    assert float(over_all_signs(model, piece).mean()) == pytest.approx(float(dense[1]), rel=1e-9)


@pytest.mark.thorough
def test_error_bar_covers_the_true_trace(model, one_mask):
    """2,000 samples of 300 sentences, each sentence with its own signs, drawn from all possible ones."""
    table = torch.stack(
        [over_all_signs(model, piece) for piece in single_sentences(model, one_mask).values()]
    )
    truth, generator = float(table.mean()), torch.Generator().manual_seed(5)
    drawn = table.flatten()[torch.randint(0, table.numel(), (2000, 300), generator=generator)]
    estimates = [sample_mean(values) for values in drawn]
    covered = [abs(e.value - truth) < 1.96 * e.standard_error for e in estimates]
    assert 0.93 < sum(covered) / len(covered) < 0.97
    z = [(e.value - truth) / e.standard_error for e in estimates]
    assert abs(sum(z) / len(z)) < 4 / math.sqrt(len(z))


def test_checkpoints_compared_share_their_signs(model):
    batch = OBJECTIVE.mask_every_position(ragged_batches.sentences())
    before = fisher_trace(model, [batch], OBJECTIVE, seed=0).values
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 0.99
    after = fisher_trace(model, [batch], OBJECTIVE, seed=0).values
    apart = math.hypot(sample_mean(before).standard_error, sample_mean(after).standard_error)
    assert paired_difference(after, before).standard_error < 0.2 * apart


def test_values_are_those_of_the_seeds_signs_and_groups_add_up(model, several_masks):
    trace = fisher_trace(model, [several_masks], OBJECTIVE, seed=9)
    expected = dense_values(model, OBJECTIVE, several_masks, seed=9)
    torch.testing.assert_close(trace.values, expected, rtol=1e-9, atol=0)
    parts = sum(estimate.value for estimate in trace.group_estimates.values())
    assert parts == pytest.approx(trace.estimate.value, rel=1e-12)


def test_what_is_measured_and_how_is_said(model, one_mask):
    name, weight = next(iter(model.named_parameters()))
    weight.requires_grad_(False)
    trace = fisher_trace(model, [one_mask], OBJECTIVE, seed=0)
    assert trace.parameters.frozen == (name,)
    assert trace.parameters.count == sum(p.numel() for p in model.parameters()) - weight.numel()
    assert set(trace.ways) == {name for name, p in model.named_parameters() if p is not weight}
    assert all(trace.ways.values())


def test_how_sentences_are_batched_changes_nothing(model, several_masks):
    whole = fisher_trace(model, [several_masks], OBJECTIVE, seed=4)
    parts = (sentences_between(several_masks, a, b) for a, b in ((0, 1), (1, 1), (1, 4), (4, 6)))
    in_parts = fisher_trace(model, parts, OBJECTIVE, seed=4)
    torch.testing.assert_close(in_parts.values, whole.values, rtol=1e-10, atol=0)
    assert torch.equal(in_parts.predictions, torch.bincount(several_masks.rows))
    by_token = (whole.values * whole.predictions).sum() / whole.predictions.sum()
    assert whole.token_averaged.value == pytest.approx(float(by_token))
    assert whole.token_averaged.value != pytest.approx(whole.estimate.value, rel=1e-3)


def test_progress_ends_at_the_number_of_sentences(model, one_mask):
    reported = []

    halves = [sentences_between(one_mask, 0, 3), sentences_between(one_mask, 3, 6)]
    fisher_trace(model, halves, OBJECTIVE, seed=0, progress=lambda *told: reported.append(told[:3]))
    assert {task for task, _, _ in reported} == {"Fisher trace"}
    done = [completed for _, completed, _ in reported]
    assert done == sorted(done)
    assert len(done) > len(halves)
    assert ("Fisher trace", 3, 6) in reported
    assert reported[-1] == ("Fisher trace", 6, 6)


@pytest.mark.thorough
def test_what_a_sentence_takes_is_measured_once_for_sentences_of_a_size(model, several_masks, monkeypatch):
    measured = []

    def counted(*arguments):
        measured.append(arguments)
        return bytes_kept_for_backward(*arguments)

    monkeypatch.setattr("isoloss.objectives.evaluation.bytes_kept_for_backward", counted)
    trace = fisher_trace(model, [several_masks] * 3, OBJECTIVE)
    assert len(measured) == 1
    monkeypatch.undo()
    assert torch.equal(trace.values, fisher_trace(model, [several_masks] * 3, OBJECTIVE).values)


@pytest.fixture(params=others_thorough([GPT2Transformer, LlamaTransformer]))
def causal(request):
    return tiny_model(request.param, ragged_batches.WORDS, ragged_batches.LENGTH)


def test_values_of_causal_models_are_those_of_dense_gradients_with_the_seeds_signs(causal):
    batch = NEXT_WORD.every_prediction(ragged_batches.sentences())
    trace = fisher_trace(causal, [batch], NEXT_WORD, seed=9)
    assert causal.training
    torch.testing.assert_close(trace.values, dense_values(causal, NEXT_WORD, batch, 9), rtol=1e-9, atol=0)


def test_sentences_that_are_predicted_whole_are_measured_in_batch(causal):
    """As many predictions as words: the output layer's rows are told from those of all words."""
    equal = Sentences.from_lists([[0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 1], [1, 0, 0]])
    found = sentence_fisher_traces(causal, NEXT_WORD, NEXT_WORD.every_prediction(equal), seed=2)
    assert found.compared
    assert "per-sentence gradients" not in found.ways.values()
