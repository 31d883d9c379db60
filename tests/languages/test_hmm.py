"""Tests of HMMs beyond the contract: states, sampling at scale, refusals."""

import math
from dataclasses import replace

import pytest
import torch
from scipy.stats import chi2

from block_hmm import block_hmm
from isoloss.errors import BadInput
from isoloss.languages.hmm import HMM, StateTask, hmm
from isoloss.languages.language import masked_log_probabilities_at
from isoloss.languages.random_hmm import random_hmm
from isoloss.languages.sentences import Sentences


def test_no_words_are_refused() -> None:
    with pytest.raises(BadInput, match="the HMM: words is empty"):
        hmm([], torch.ones(1), torch.ones(1, 1), torch.ones(1, 0), 3)


def test_states_and_words_follow_their_distributions() -> None:
    """Pairs of neighbouring states and of states and words, each against its expectation."""
    language = random_hmm(words=4, states=3, blocks=1, length=5, seed=0)
    n = 20_000
    sentences, states = language.sample_with_states(n, torch.Generator().manual_seed(0))
    assert torch.equal(sentences.ids, language.sample(n, torch.Generator().manual_seed(0)).ids)
    marginal = language.initial
    for t in range(5):
        joint = marginal[:, None] * language.emission
        assert_frequencies(states[:, t] * 4 + sentences.ids[:, t], joint.flatten())
        if t + 1 < 5:
            joint = marginal[:, None] * language.transition
            assert_frequencies(states[:, t] * 3 + states[:, t + 1], joint.flatten())
            marginal = joint.sum(0)


def assert_frequencies(cells: torch.Tensor, distribution: torch.Tensor) -> None:
    expected = distribution * len(cells)
    seen = torch.bincount(cells, minlength=len(distribution))
    statistic = ((seen - expected) ** 2 / expected).sum().item()
    assert statistic < chi2.ppf(0.9999, len(distribution) - 1)


def test_blocks_never_mix() -> None:
    settings = {"words": 200, "states": 100, "blocks": 10, "length": 16}
    language = random_hmm(**settings, seed=0)
    sentences, states = language.sample_with_states(2000, torch.Generator().manual_seed(0))
    assert (states // 10 == states[:, :1] // 10).all()
    assert (sentences.ids // 20 == states // 10).all()
    assert len((states[:, 0] // 10).unique()) == 10
    assert language.log_probability(sentences).isfinite().all()
    assert random_hmm(**settings, seed=0).digest == language.digest != random_hmm(**settings, seed=1).digest


def test_posterior_states_are_right_as_often_as_they_say() -> None:
    """The ceiling is calibrated: the mean largest posterior equals how often the label is the true state."""
    language = block_hmm()
    n = 4000
    sentences, states = language.sample_with_states(n, torch.Generator().manual_seed(1))
    for task in (StateTask(language, 1), StateTask(language, 6)):
        labelled = task.label(sentences)
        largest = labelled.posterior.amax(1)
        right = (labelled.labels == states[:, task.position - 1]).double()
        spread = (largest * (1 - largest)).sum().sqrt() / n
        assert abs(right.mean() - largest.mean()) < 4 * spread
        assert task.name == f"state-{task.position}"
    assert [task.name for task in language.tasks()] == [f"state-{k}" for k in range(1, 9)]


def test_equal_states_are_a_tie_that_the_first_wins() -> None:
    same = torch.full((3, 3), 1 / 3, dtype=torch.float64)
    language = hmm(["a", "b", "c"], same[0], same, same, 2)
    assert not StateTask(language, 2).sample(50, torch.Generator().manual_seed(0)).labels.any()


def test_results_do_not_depend_on_the_memory_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    language = block_hmm()
    tight = replace(language, memory_bytes=1)
    sentences = language.sample(9, torch.Generator().manual_seed(0))
    for name in (
        "masked_log_probabilities",
        "next_log_probabilities",
        "log_probability",
        "state_posteriors",
        "best_paths",
    ):
        ours, theirs = getattr(tight, name)(sentences), getattr(language, name)(sentences)
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
    labelled = StateTask(language, 3).label(sentences)
    monkeypatch.setattr("isoloss.languages.hmm.SENTENCES_AT_ONCE", 4)
    assert torch.equal(StateTask(language, 3).label(sentences).labels, labelled.labels)
    monkeypatch.setattr("isoloss.languages.sampling.CHUNK", 4)
    assert torch.equal(language.sample(9, torch.Generator().manual_seed(0)).ids, sentences.ids)


def test_beginnings_have_next_word_distributions_whatever_their_padding() -> None:
    language = block_hmm()
    whole = language.sample(1, torch.Generator().manual_seed(0))
    full = language.next_log_probabilities(whole)[0]
    for length in range(1, 8):
        beginning = Sentences(whole.ids[:, :length], torch.tensor([length]))
        assert torch.equal(language.next_log_probabilities(beginning)[0], full[: length + 1])
    ragged = Sentences(whole.ids.repeat(7, 1), torch.arange(1, 8))
    ragged.ids[~ragged.real] = -1
    distribution = language.next_log_probabilities(ragged)
    for row, length in enumerate(range(1, 8)):
        torch.testing.assert_close(
            distribution[row, : length + 1], full[: length + 1], rtol=1e-12, atol=1e-12
        )
        assert (distribution[row, length + 1 :] == -math.inf).all()
    assert full[8].exp().tolist() == [0] * 12 + [1]


@pytest.mark.parametrize("kept", [1, 8 * 8 * 12 * 2, 1 << 20])
def test_distributions_at_positions_are_those_of_whole_sentences(
    monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    """However many sentences are worked out at once: one, two, or all."""
    language = block_hmm()
    sentences = language.sample(5, torch.Generator().manual_seed(0))
    rows, positions = torch.tensor([4, 0, 2, 4, 1]), torch.tensor([3, 7, 0, 2, 5])
    expected = language.masked_log_probabilities(sentences)[rows, positions]
    monkeypatch.setattr("isoloss.languages.language.SENTENCES_BYTES", kept)
    found = masked_log_probabilities_at(language, sentences, rows, positions)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.fixture
def two_blocks() -> HMM:
    return hmm(["a", "b"], torch.full((2,), 0.5), torch.eye(2), torch.eye(2), 3)


def test_a_page_tells_which_share_of_transitions_is_possible(two_blocks: HMM) -> None:
    assert two_blocks.facts() == (("states", "2"), ("possible transitions", "50%"))


def test_impossible_sentences_are_refused_where_they_have_no_distribution(two_blocks: HMM) -> None:
    good, bad = [0, 0, 0], [0, 1, 1]
    sentences = Sentences.from_lists([good, bad])
    assert two_blocks.log_probability(sentences).tolist() == [pytest.approx(math.log(0.5)), -math.inf]
    with pytest.raises(BadInput, match="sentence 2: no word at all fits position 2; check its words"):
        two_blocks.masked_log_probabilities(sentences)
    with pytest.raises(BadInput, match="sentence 2: no sentence of the language goes on at position 3"):
        two_blocks.next_log_probabilities(sentences)
    one_at_a_time = replace(two_blocks, memory_bytes=1)
    for refused in (two_blocks.state_posteriors, two_blocks.best_paths, one_at_a_time.best_paths):
        with pytest.raises(BadInput, match="sentence 2: no path of states emits these words"):
            refused(sentences)
    with pytest.raises(BadInput, match="sentence 1: no sentence of the language goes on at position 4"):
        two_blocks.next_log_probabilities(Sentences.from_lists([[0, 0, 1]]))
    with pytest.raises(BadInput, match="sentence 1: no sentence of the language goes on at position 5"):
        two_blocks.next_log_probabilities(Sentences.from_lists([[0, 0, 0, 0]]))


def test_one_wrong_word_has_a_masked_distribution_of_its_own(two_blocks: HMM) -> None:
    one_wrong = hmm(["a", "b"], torch.full((2,), 0.5), torch.eye(2), torch.eye(2), 1)
    assert one_wrong.masked_log_probabilities(Sentences.from_lists([[1]])).exp().tolist() == [[[0.5, 0.5]]]
    with pytest.raises(BadInput, match="no word at all fits position 1"):
        two_blocks.masked_log_probabilities(Sentences.from_lists([[0, 0, 1]]))


@pytest.mark.parametrize("words", [[0, 0], [0, 0, 0, 0]])
def test_other_lengths_have_no_probability_and_no_masked_distribution(
    two_blocks: HMM, words: list[int]
) -> None:
    sentences = Sentences.from_lists([[0, 0, 0], words])
    assert two_blocks.log_probability(sentences)[1] == -math.inf
    for refused in (two_blocks.masked_log_probabilities, two_blocks.state_posteriors, two_blocks.best_paths):
        with pytest.raises(BadInput, match=f"sentence 2 has {len(words)} words, the language's have 3"):
            refused(sentences)
