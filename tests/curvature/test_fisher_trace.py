import contextlib
import itertools
import math

import pytest
import ragged_batches
import torch
from dense_norms import noise_of_the_output_layer
from model_state import state

from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.curvature.per_sentence.directions import fisher_directions, sign_bits, signs_of
from isoloss.curvature.per_sentence.norms import norms_along
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, sentences_between, sentences_of
from isoloss.objectives.masked import MaskedObjective
from isoloss.results.estimate import mean_over_sentences, paired_difference
from tiny_models import ARCHITECTURES, tiny_model

OBJECTIVE = MaskedObjective()
TOKENS = 5


@pytest.fixture(params=ARCHITECTURES)
def model(request):
    return tiny_model(request.param, ragged_batches.WORDS, ragged_batches.LENGTH)


@pytest.fixture
def one_mask():
    return ragged_batches.one_mask()


@pytest.fixture
def several_masks():
    return ragged_batches.several_masks()


def dense_traces(model, batch):
    """Each sentence's mean over its masks of Σ_y p_y ||∇ log p_y||², one backward pass per label."""
    model.eval()
    log_p = OBJECTIVE.logits(model, batch).log_softmax(1)
    parameters = list(model.parameters())
    traces = torch.zeros(len(batch), dtype=torch.float64)
    for j, row in enumerate(batch.rows.tolist()):
        for label in range(TOKENS):
            gradients = torch.autograd.grad(log_p[j, label], parameters, retain_graph=True, allow_unused=True)
            squared = sum(g.square().sum() for g in gradients if g is not None)
            traces[row] += log_p[j, label].exp().detach() * squared
    return traces / torch.bincount(batch.rows)


def repeated(piece, times):
    """The single sentence of `piece`, repeated `times` times."""
    masks = len(piece.targets)
    return Batch(
        piece.input_ids.expand(times, -1),
        piece.attention_mask.expand(times, -1),
        torch.arange(times).repeat_interleave(masks),
        piece.positions.repeat(times),
        piece.targets.repeat(times),
    )


def over_all_signs(model, piece):
    """The estimator's value for every one of the 2^(M v) sign vectors of a sentence."""
    masks = len(piece.targets)
    signs = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=masks * TOKENS)), dtype=torch.float64)
    batch = repeated(piece, len(signs))
    model.eval()

    def draw(logits):
        return fisher_directions(logits, signs.view(-1, TOKENS))

    return sum(norms_along(model, OBJECTIVE, batch, draw).groups.values()) / masks


def single_sentences(model, batch):
    return {i: sentences_of(batch, torch.tensor([i])) for i in range(len(batch))}


def test_expectation_over_all_signs_is_the_dense_trace(model, one_mask):
    dense = dense_traces(model, one_mask)
    for sentence, piece in single_sentences(model, one_mask).items():
        assert float(over_all_signs(model, piece).mean()) == pytest.approx(float(dense[sentence]), rel=1e-9)


def test_one_draw_for_two_masks_has_the_mean_of_their_traces(model, several_masks):
    dense = dense_traces(model, several_masks)
    piece = single_sentences(model, several_masks)[1]
    assert len(piece.targets) == 2
    assert float(over_all_signs(model, piece).mean()) == pytest.approx(float(dense[1]), rel=1e-9)


def test_values_are_those_of_the_seeds_signs(model, several_masks):
    """The whole routine against the quadratic form, with the signs looked up."""
    trace = fisher_trace(model, [several_masks], OBJECTIVE, seed=9)
    for sentence, piece in single_sentences(model, several_masks).items():
        masks = len(piece.targets)
        bits = sign_bits(torch.tensor([sentence]), torch.tensor([masks]), TOKENS, seed=9)
        signs = signs_of(bits, TOKENS, torch.float64)
        logits = OBJECTIVE.logits(model.eval(), piece)
        drawn = fisher_directions(logits.detach(), signs)
        gradients = torch.autograd.grad(
            (logits * drawn.cotangents).sum(), list(model.parameters()), allow_unused=True
        )
        squared = sum(float(g.square().sum()) for g in gradients if g is not None)
        noise = float(noise_of_the_output_layer(model, OBJECTIVE, piece, drawn))
        assert float(trace.values[sentence]) == pytest.approx((squared - noise) / masks, rel=1e-9)


def test_error_bar_covers_the_true_trace(model, one_mask):
    """2,000 samples of 300 sentences, each sentence with its own signs, drawn from all possible ones."""
    table = torch.stack(
        [over_all_signs(model, piece) for piece in single_sentences(model, one_mask).values()]
    )
    truth, generator = float(table.mean()), torch.Generator().manual_seed(5)
    drawn = table.flatten()[torch.randint(0, table.numel(), (2000, 300), generator=generator)]
    estimates = [mean_over_sentences(values) for values in drawn]
    covered = [abs(e.value - truth) < 1.96 * e.standard_error for e in estimates]
    assert 0.93 < sum(covered) / len(covered) < 0.97
    z = [(e.value - truth) / e.standard_error for e in estimates]
    assert abs(sum(z) / len(z)) < 4 / math.sqrt(len(z))


def test_groups_add_up_and_chunks_do_not_matter(model, several_masks):
    whole = fisher_trace(model, [several_masks], OBJECTIVE, seed=1)
    in_pieces = fisher_trace(model, [several_masks], OBJECTIVE, seed=1, memory_bytes=1)
    torch.testing.assert_close(whole.values, in_pieces.values, rtol=1e-10, atol=0)
    parts = sum(estimate.value for estimate in whole.group_estimates.values())
    assert parts == pytest.approx(whole.estimate.value, rel=1e-12)
    assert whole.parameters.count == sum(p.numel() for p in model.parameters())
    again = fisher_trace(model, [several_masks], OBJECTIVE, seed=1)
    assert torch.equal(again.values, whole.values)
    assert not torch.equal(fisher_trace(model, [several_masks], OBJECTIVE, seed=2).values, whole.values)


def test_frozen_parameters_are_said(model, one_mask):
    name, weight = next(iter(model.named_parameters()))
    weight.requires_grad_(False)
    trace = fisher_trace(model, [one_mask], OBJECTIVE, seed=0)
    assert trace.parameters.frozen == (name,)
    assert trace.parameters.count == sum(p.numel() for p in model.parameters()) - weight.numel()


def test_checkpoints_compared_share_their_signs(model):
    batch = OBJECTIVE.mask_every_position(ragged_batches.sentences())
    before = fisher_trace(model, [batch], OBJECTIVE, seed=0).values
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 0.99
    after = fisher_trace(model, [batch], OBJECTIVE, seed=0).values
    apart = math.hypot(mean_over_sentences(before).standard_error, mean_over_sentences(after).standard_error)
    assert paired_difference(after, before).standard_error < 0.2 * apart


class Broken(Exception):
    pass


class SecondCallFails:
    def __init__(self):
        self.calls = 0

    def logits(self, model, batch):
        self.calls += 1
        if self.calls > 1:
            raise Broken
        return OBJECTIVE.logits(model, batch)


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_left_as_found(model, one_mask, fails):
    objective = SecondCallFails() if fails else OBJECTIVE
    model.train()
    model.base_model.encoder.eval()
    OBJECTIVE.logits(model, one_mask).sum().backward()
    found = state(model)
    with contextlib.suppress(Broken):
        fisher_trace(model, [one_mask], objective, seed=0, memory_bytes=1)
    assert not fails or objective.calls == 2
    torch.testing.assert_close(state(model), found, rtol=0, atol=0)


def test_dropout_is_off(model, one_mask):
    training = fisher_trace(model.train(), [one_mask], OBJECTIVE, seed=0)
    evaluating = fisher_trace(model.eval(), [one_mask], OBJECTIVE, seed=0)
    assert torch.equal(training.values, evaluating.values)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_scores_that_are_not_finite_are_named(model, one_mask, value):
    class Diverged:
        def logits(self, model, batch):
            scores = OBJECTIVE.logits(model, batch)
            alone = batch.attention_mask.sum(1)[batch.rows] == 2
            return scores.where(~alone[:, None], value)

    with pytest.raises(BadInput, match="scores for sentence 4 are not finite"):
        fisher_trace(model, [one_mask], Diverged(), seed=0)


def test_nothing_to_measure_is_refused(model, one_mask):
    none = Batch(
        one_mask.input_ids[:0],
        one_mask.attention_mask[:0],
        one_mask.rows[:0],
        one_mask.positions[:0],
        one_mask.targets[:0],
    )
    with pytest.raises(BadInput, match="no sentences"):
        fisher_trace(model, [none], OBJECTIVE, seed=0)


def test_one_sentence_is_refused(model, one_mask):
    with pytest.raises(BadInput, match="1 sentences have no standard error"):
        fisher_trace(model, [sentences_between(one_mask, 0, 1)], OBJECTIVE)


def test_a_model_that_is_frozen_is_refused(model, one_mask):
    with pytest.raises(BadInput, match="no parameter that requires a gradient"):
        fisher_trace(model.requires_grad_(False), [one_mask], OBJECTIVE)


def test_how_sentences_are_batched_changes_nothing(model, several_masks):
    whole = fisher_trace(model, [several_masks], OBJECTIVE, seed=4)
    parts = (sentences_between(several_masks, a, b) for a, b in ((0, 1), (1, 1), (1, 4), (4, 6)))
    in_parts = fisher_trace(model, parts, OBJECTIVE, seed=4)
    torch.testing.assert_close(in_parts.values, whole.values, rtol=1e-10, atol=0)
    assert torch.equal(in_parts.predictions, torch.bincount(several_masks.rows))
    by_token = (whole.values * whole.predictions).sum() / whole.predictions.sum()
    assert whole.token_averaged.value == pytest.approx(float(by_token))
    assert whole.token_averaged.value != pytest.approx(whole.estimate.value, rel=1e-3)


def test_every_parameter_went_some_way(model, one_mask):
    weight = next(model.parameters()).requires_grad_(False)
    trace = fisher_trace(model, [one_mask], OBJECTIVE)
    assert set(trace.ways) == {name for name, p in model.named_parameters() if p is not weight}
    assert all(trace.ways.values())


def test_progress_ends_at_the_number_of_sentences(model, one_mask):
    told = []

    def progress(task, completed, total, message=""):
        told.append((task, completed, total))

    halves = [sentences_between(one_mask, 0, 3), sentences_between(one_mask, 3, 6)]
    fisher_trace(model, halves, OBJECTIVE, seed=0, progress=progress)
    assert told == [("Fisher trace", 3, 6), ("Fisher trace", 6, 7), ("Fisher trace", 6, 6)]
