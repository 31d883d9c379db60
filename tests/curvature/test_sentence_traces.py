import itertools

import pytest
import ragged_batches
import torch
from dense_norms import dense_traces, norms_of_cotangents
from torch import nn
from unusual_models import Whole

import isoloss.curvature.per_sentence.traces as traces_module
from isoloss.curvature.per_sentence.norms import norms_along
from isoloss.curvature.per_sentence.traces import (
    BYTES_WORTH_A_THREAD,
    drawn_directions,
    fisher_directions,
    sentence_fisher_traces,
    sign_bits,
    signs_of,
)
from isoloss.errors import BadInput, IsolossError
from isoloss.objectives.batch import Batch, sentences_of
from isoloss.objectives.evaluation import bytes_kept_for_backward
from isoloss.objectives.masked import MaskedObjective

OBJECTIVE, TOKENS = MaskedObjective(), 5


def total(traces):
    return sum(traces.groups.values())


def test_the_mean_over_all_signs_is_the_dense_trace_over_all_masks_and_labels(model):
    """Every mask of every sentence, every label, and every one of the 2^v draws of signs."""
    masks = OBJECTIVE.mask_every_position(ragged_batches.sentences())
    signs = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=TOKENS)), dtype=torch.float64)
    times = len(signs)
    all_signs = signs.repeat_interleave(len(masks), 0)
    repeated = ragged_batches.repeated(masks, times)
    norms = norms_along(model, OBJECTIVE, repeated, lambda logits: fisher_directions(logits, all_signs))
    means = total(norms).view(times, -1).mean(0)
    torch.testing.assert_close(means, dense_traces(model, OBJECTIVE, masks), rtol=1e-9, atol=0)
    plain = norms_of_cotangents(
        model, OBJECTIVE, repeated, lambda logits: fisher_directions(logits, all_signs).cotangents
    )
    torch.testing.assert_close(total(plain).view(times, -1).mean(0), means, rtol=1e-9, atol=0)
    assert float(total(norms).view(times, -1).var(0).sum()) < float(total(plain).view(times, -1).var(0).sum())


@pytest.mark.thorough
def test_how_sentences_are_batched_changes_nothing(model, several_masks):
    whole = sentence_fisher_traces(model, OBJECTIVE, several_masks, seed=3, first_sentence=10)
    one_at_a_time = sentence_fisher_traces(
        model, OBJECTIVE, several_masks, seed=3, first_sentence=10, memory_bytes=1
    )
    for group, values in whole.groups.items():
        torch.testing.assert_close(one_at_a_time.groups[group], values, rtol=1e-10, atol=1e-14)
    assert whole.ways == one_at_a_time.ways
    again = sentence_fisher_traces(model, OBJECTIVE, several_masks, seed=3, first_sentence=10)
    assert all(torch.equal(again.groups[group], values) for group, values in whole.groups.items())
    others = sentence_fisher_traces(model, OBJECTIVE, several_masks, seed=3, first_sentence=11)
    assert not torch.isclose(total(whole), total(others)).any()


def test_memory_holds_as_many_sentences_as_it_says(model, several_masks, monkeypatch):
    sizes = []

    def recorded(model, objective, batch, draw, **settings):
        sizes.append(len(batch))
        return norms_along(model, objective, batch, draw, **settings)

    monkeypatch.setattr(traces_module, "norms_along", recorded)
    longest = sentences_of(several_masks, several_masks.attention_mask.sum(1).argmax()[None])
    size = bytes_kept_for_backward(model, OBJECTIVE, longest)
    sentence_fisher_traces(model, OBJECTIVE, several_masks, seed=0, compare=False, memory_bytes=4 * size + 1)
    assert sizes == [4, 2]


def test_what_is_kept_for_the_backward_pass_is_counted():
    """Of a layer and a sigmoid: the layer's input, the sigmoid's output, and the scores four times."""
    model = nn.Sequential(nn.Linear(4, 8, bias=False), nn.Sigmoid(), nn.Linear(8, 5, bias=False))
    words = torch.zeros(1, 3, dtype=torch.int64)
    batch = Batch(words, words == 0, torch.tensor([0]), torch.tensor([0]), torch.tensor([0]))

    class Constant:
        def logits(self, model, batch):
            return model(torch.ones(3, 4))[batch.positions]

    kept = bytes_kept_for_backward(model, Constant(), batch)
    indices = batch.positions.nbytes
    assert kept == (3 * 4 + 3 * 8 + 4 * 5) * 4 + indices


class Limited:
    """Memory for the gradients of `most` sentences, with torch's message for a CPU."""

    def __init__(self, most, message="DefaultCPUAllocator: can't allocate memory: you tried to allocate"):
        self.most, self.message, self.sizes = most, message, []

    def logits(self, model, batch):
        self.sizes.append(len(batch))
        if len(batch) > self.most:
            raise RuntimeError(self.message)
        return OBJECTIVE.logits(model, batch)


def test_where_memory_runs_out_half_as_many_are_taken(model, several_masks):
    limited = Limited(2)
    traces = sentence_fisher_traces(model, limited, several_masks, seed=0, first_sentence=1)
    expected = sentence_fisher_traces(model, OBJECTIVE, several_masks, seed=0, first_sentence=1)
    torch.testing.assert_close(total(traces), total(expected))
    assert limited.sizes[:3] == [1, 7, 3]  # one to count its bytes; as many as words, so one is repeated
    assert max(limited.sizes[3:]) <= 2


def test_a_sentence_too_large_for_memory_and_any_other_error(model, several_masks):
    large = Limited(0)
    alone = sentences_of(several_masks, torch.tensor([1]))
    with pytest.raises(IsolossError, match="gradients of sentence 5;"):
        sentence_fisher_traces(model, large, alone, seed=0, first_sentence=4)
    with pytest.raises(RuntimeError, match="shapes"):
        sentence_fisher_traces(model, Limited(1, "shapes do not fit"), several_masks, seed=0)


def test_gradients_that_are_not_finite_although_scores_are_are_named(model, several_masks):
    class Rooted:
        def logits(self, model, batch):
            scores = OBJECTIVE.logits(model, batch).clone()
            alone = batch.attention_mask.sum(1)[batch.rows] == 2
            scores[alone] += (scores[alone] - scores[alone].detach()).sqrt()
            return scores

    with pytest.raises(BadInput, match="gradient of sentence 104 is not finite although its scores are"):
        sentence_fisher_traces(model, Rooted(), several_masks, seed=0, first_sentence=100)


class Averaging(nn.Module):
    """Every word is compared with the mean of its batch."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.output = nn.Embedding(5, 4).double(), nn.Linear(4, 5).double()

    def forward(self, ids):
        states = self.words(ids)
        return self.output(states - states.mean(dim=(0, 1)))


def test_sentences_that_see_each_other_are_refused(several_masks):
    with pytest.raises(BadInput, match="sentences of a batch see each other"):
        sentence_fisher_traces(Averaging(), Whole(), several_masks, seed=0)


def test_a_sentences_bits_depend_on_the_seed_and_its_number_alone():
    whole = sign_bits(torch.tensor([4, 5, 6]), torch.tensor([2, 1, 3]), 13, seed=1)
    assert whole.shape == (6, 2)
    assert torch.equal(whole[3:], sign_bits(torch.tensor([6]), torch.tensor([3]), 13, seed=1))
    assert torch.equal(whole[:1], sign_bits(torch.tensor([4]), torch.tensor([1]), 13, seed=1))
    assert not torch.equal(whole, sign_bits(torch.tensor([4, 5, 6]), torch.tensor([2, 1, 3]), 13, seed=2))


def test_sign_bits_do_not_depend_on_the_threads_that_draw_them(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, words = torch.tensor([9, 30, 2, 24]), 1 << 16
    assert int(counts.sum()) * words // 8 > 2 * BYTES_WORTH_A_THREAD
    drawn = {}
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        drawn[threads] = sign_bits(torch.arange(4), counts, words, seed=1)
    assert torch.equal(drawn[1], drawn[3])


def test_signs_are_fair_and_independent():
    """For 4,000 draws of 12 signs, means and all pairwise products are within 4.5 standard errors of zero."""
    n = 4000
    bits = sign_bits(torch.arange(n // 2), torch.full((n // 2,), 2), 12, seed=0)
    signs = signs_of(bits, 12, torch.float64)
    assert signs.shape == (n, 12)
    assert set(signs.unique().tolist()) == {-1.0, 1.0}
    assert float(signs.mean(0).abs().max()) < 4.5 / n**0.5
    second = signs.T @ signs / n
    assert float((second - torch.eye(12, dtype=torch.float64)).abs().max()) < 4.5 / n**0.5
    neighbours = (signs[0::2] * signs[1::2]).mean(0)
    assert float(neighbours.abs().max()) < 4.5 / (n / 2) ** 0.5


def test_directions_are_made_in_single_precision_of_half_precise_scores():
    logits = torch.tensor([[9.0, 0.0, -3.0]], dtype=torch.bfloat16)
    signs = torch.tensor([[1.0, -1.0, 1.0]])
    found = fisher_directions(logits, signs.bfloat16())
    assert found.cotangents.dtype == torch.bfloat16
    expected = fisher_directions(logits.double(), signs.double())
    torch.testing.assert_close(found.cotangents.double(), expected.cotangents, rtol=1e-2, atol=0)
    torch.testing.assert_close(found.mean_squares, expected.mean_squares, rtol=1e-3, atol=0)


def test_moments_of_the_directions_over_all_signs():
    p = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    signs = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=3)), dtype=torch.float64)
    directions = fisher_directions(p.log().expand(8, 3), signs)
    delta = directions.cotangents
    torch.testing.assert_close(delta.T @ delta / 8, p.diag() - torch.outer(p, p))
    torch.testing.assert_close(delta.mean(0), torch.zeros(3, dtype=torch.float64))
    torch.testing.assert_close(directions.mean_squares, delta.square().sum(1).mean().expand(8))


@pytest.mark.parametrize("at_once", [1, 40, 1 << 20])
def test_rows_taken_some_at_a_time_have_the_directions_of_all(at_once, monkeypatch):
    monkeypatch.setattr("isoloss.curvature.per_sentence.traces.NUMBERS_AT_ONCE", at_once)
    logits = torch.randn(7, 13, generator=torch.Generator().manual_seed(0))
    bits = sign_bits(torch.arange(7), torch.ones(7, dtype=torch.int64), 13, seed=0)
    found = drawn_directions(logits, bits)
    expected = fisher_directions(logits, signs_of(bits, 13, torch.float32))
    torch.testing.assert_close(found.cotangents, expected.cotangents)
    torch.testing.assert_close(found.mean_squares, expected.mean_squares)
