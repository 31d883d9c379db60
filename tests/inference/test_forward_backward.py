"""Distributions of hidden Markov chains against sums over all paths, and against hmmlearn."""

import itertools
from math import inf, log

import numpy as np
import pytest
import torch
from hmmlearn.hmm import CategoricalHMM
from torch import Tensor

from isoloss.inference import hidden_markov_chain
from isoloss.inference.forward_backward import Forward, forward, viterbi
from isoloss.inference.hidden_markov_chain import HiddenMarkovChain, diagonal_blocks, times_blocks
from isoloss.languages.random_hmm import random_hmm


def random_distributions(rows: int, columns: int, seed: int, zeros: float = 0.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(rows, columns, generator=generator, dtype=torch.float64) + 0.01
    weights[torch.rand(rows, columns, generator=generator) < zeros] = 0
    weights[:, 0] += weights.sum(1) == 0
    return weights / weights.sum(1, keepdim=True)


def random_chain(states: int, words: int, seed: int, zeros: float = 0.0) -> HiddenMarkovChain:
    return HiddenMarkovChain(
        random_distributions(1, states, seed, zeros)[0],
        random_distributions(states, states, seed + 1, zeros),
        random_distributions(states, words, seed + 2, zeros),
    )


def joint(chain: HiddenMarkovChain, length: int) -> Tensor:
    """Pr(z, x) for every path and every sentence: [S] * T + [c] * T."""
    states, words = "abcdefg"[:length], "stuvwxy"[:length]
    factors = ["a", *(f"{x}{y}" for x, y in itertools.pairwise(states))]
    factors += [f"{z}{x}" for z, x in zip(states, words, strict=True)]
    tables = [chain.initial, *[chain.transition] * (length - 1), *[chain.emission] * length]
    return torch.einsum(f"{','.join(factors)}->{states}{words}", *tables)


def every_sentence(words: int, length: int) -> Tensor:
    return torch.tensor(list(itertools.product(range(words), repeat=length)))


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-15, equal_nan=True)


def assert_distributions_of_enumeration(chain: HiddenMarkovChain, length: int) -> None:
    """Every sentence, impossible ones included, whose distributions are NaN where enumeration is 0/0."""
    whole, words = joint(chain, length), chain.emission.shape[1]
    ids = every_sentence(words, length)
    passed = forward(chain, ids)
    smoothed = passed.smoothed()
    distribution = whole.sum(tuple(range(length)))
    assert_close(passed.log_probability, distribution.flatten().log())
    for t in range(length):
        masked = (distribution / distribution.sum(t, keepdim=True)).movedim(t, -1)
        rows = masked.unsqueeze(t).expand(*[words] * (length + 1))
        assert_close(smoothed.masked_distribution[:, t], rows.flatten(0, -2))
        seen = distribution.sum(tuple(range(t + 1, length))) if t + 1 < length else distribution
        following = seen / seen.sum(t, keepdim=True)
        prefixes = ids[:, :t] @ torch.tensor([words**k for k in range(t)][::-1], dtype=torch.int64)
        assert_close(passed.next_distribution()[:, t], following.reshape(-1, words)[prefixes])
        others = tuple(place for place in range(length) if place != t)
        state = whole.sum(others) if others else whole
        state = (state / state.sum(0, keepdim=True)).flatten(1).T
        assert_close(smoothed.posteriors[:, t], state)
    assert_close(passed.posteriors(), smoothed.posteriors)


@pytest.mark.parametrize("zeros", [0.0, 0.3, 0.6])
@pytest.mark.parametrize(("states", "words", "length"), [(3, 2, 4), (2, 3, 3), (1, 3, 2), (4, 3, 1)])
def test_distributions_are_those_of_enumeration(states: int, words: int, length: int, zeros: float) -> None:
    for seed in range(0, 30, 10):
        assert_distributions_of_enumeration(random_chain(states, words, seed, zeros), length)


@pytest.mark.parametrize("zeros", [0.0, 0.5])
@pytest.mark.parametrize("steps", [0, 1], ids=["by logarithms", "rescaled at every step"])
def test_distributions_out_of_range_are_those_of_enumeration(
    steps: int, zeros: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HiddenMarkovChain, "steps_in_range", lambda *_: steps)
    chain = random_chain(3, 2, 7, zeros)
    assert (forward(chain, every_sentence(2, 4)).risky == (steps == 0)).all()
    assert_distributions_of_enumeration(chain, 4)


def fitted(chain: HiddenMarkovChain, implementation: str) -> CategoricalHMM:
    model = CategoricalHMM(len(chain.initial), implementation=implementation)
    model.startprob_, model.transmat_ = chain.initial.numpy(), chain.transition.numpy()
    model.emissionprob_, model.n_features = chain.emission.numpy(), chain.emission.shape[1]
    return model


@pytest.mark.parametrize("implementation", ["scaling", "log"])
@pytest.mark.parametrize("blocks", [1, 4])
def test_posteriors_are_those_of_hmmlearn(blocks: int, implementation: str) -> None:
    language = random_hmm(words=80, states=40, blocks=blocks, length=16, seed=0)
    ids = language.sample(50, torch.Generator().manual_seed(0)).ids
    log_probability, posteriors = fitted(language.chain, implementation).score_samples(
        ids.reshape(-1, 1).numpy(), [16] * 50
    )
    passed = forward(language.chain, ids)
    assert passed.log_probability.sum().item() == pytest.approx(log_probability, rel=1e-12)
    ours = passed.posteriors().reshape(-1, 40).numpy()
    np.testing.assert_allclose(ours, posteriors, rtol=0, atol=1e-12)
    np.testing.assert_allclose(passed.smoothed().posteriors.reshape(-1, 40).numpy(), ours, rtol=0, atol=1e-15)


def test_masked_distributions_at_scale_are_those_of_substitution() -> None:
    language = random_hmm(words=80, states=40, blocks=4, length=9, seed=0)
    ids = language.sample(3, torch.Generator().manual_seed(0)).ids
    distribution = forward(language.chain, ids).smoothed().masked_distribution
    for t in range(9):
        substituted = ids[:, None, :].repeat(1, 80, 1)
        substituted[:, :, t] = torch.arange(80)
        weights = forward(language.chain, substituted.flatten(0, 1)).log_probability.view(3, 80)
        assert_close(distribution[:, t], weights.softmax(1))


def two_coins(stay: float, often: float) -> HiddenMarkovChain:
    """A coin that mostly shows word 0 and one that mostly shows word 1; with `stay` = 1 they never switch."""
    return HiddenMarkovChain(
        torch.tensor([0.5, 0.5], dtype=torch.float64),
        torch.tensor([[stay, 1 - stay], [1 - stay, stay]], dtype=torch.float64),
        torch.tensor([[often, 1 - often], [1 - often, often]], dtype=torch.float64),
    )


@pytest.mark.parametrize("order", [pytest.param((120, 240, 120), marks=pytest.mark.thorough), (220, 100)])
def test_nothing_is_lost_when_the_evidence_turns_around(order: tuple[int, ...]) -> None:
    """After 120 0s the other coin is less probable than the smallest float64; then 1s bring it back."""
    ids = torch.cat([torch.full((n,), place % 2) for place, n in enumerate(order)])[None]
    chain = two_coins(1.0, 0.999)
    by_coin = chain.emission.log()[:, ids[0]].sum(1)
    passed = forward(chain, ids)
    expected = (by_coin + log(0.5)).logsumexp(0)
    assert passed.log_probability.item() == pytest.approx(expected.item(), rel=1e-12)
    smoothed = passed.smoothed()
    for posterior in (smoothed.posteriors[0], passed.posteriors()[0]):
        assert torch.allclose(posterior, by_coin.softmax(0).expand_as(posterior), rtol=1e-9, atol=1e-300)
    before_last = (by_coin - chain.emission.log()[:, ids[0, -1]]).softmax(0)
    assert torch.allclose(smoothed.masked_distribution[0, -1], before_last @ chain.emission, rtol=1e-9)
    assert torch.allclose(passed.next_distribution()[0, -1], before_last @ chain.emission, rtol=1e-9)


def test_only_the_sentences_that_need_it_are_done_in_logarithms() -> None:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 2, (4, 200), generator=generator)
    ids[1] = 0
    passed = forward(two_coins(1.0, 0.999), ids)
    assert passed.risky.tolist() == [False, True, False, False]
    assert not forward(two_coins(0.99, 0.999), ids).risky.any()


def test_what_only_the_backward_pass_would_lose_is_not_lost() -> None:
    """All sentences are of the second coin, of which the first one's words are ever less likely to come."""
    coins = two_coins(1.0, 0.999)
    chain = HiddenMarkovChain(torch.tensor([0.0, 1.0]).double(), coins.transition, coins.emission)
    passed = forward(chain, torch.zeros(1, 200, dtype=torch.int64))
    assert not passed.risky.any()
    smoothed, second = passed.smoothed(), torch.tensor([0.0, 1.0]).double()
    for posterior in (passed.posteriors()[0], smoothed.posteriors[0]):
        assert_close(posterior, second.expand(200, -1))
    assert_close(smoothed.masked_distribution[0], chain.emission[1].expand(200, -1))


def test_a_start_that_is_hardly_possible_leaves_little_range() -> None:
    """A first state of 1e-280, and twelve words of 1e-5 each: beyond the range of a float."""
    chain = HiddenMarkovChain(
        torch.tensor([1.0, 1e-280], dtype=torch.float64),
        torch.eye(2, dtype=torch.float64),
        torch.tensor([[1.0, 0.0], [1 - 1e-5, 1e-5]], dtype=torch.float64),
    )
    found = forward(chain, torch.ones(1, 12, dtype=torch.int64)).log_probability.item()
    assert found == pytest.approx(log(1e-280) + 12 * log(1e-5), rel=1e-12)


@pytest.mark.parametrize("tiny", [1e-60, 1e-200, 1e-320])
def test_tiny_probabilities_are_not_impossible(tiny: float) -> None:
    """The first three words come from the second coin alone; the last word can only come from the first."""
    chain = HiddenMarkovChain(
        torch.tensor([1.0, tiny], dtype=torch.float64),
        torch.tensor([[1.0, tiny], [tiny, 1.0]], dtype=torch.float64),
        torch.tensor([[tiny, 1.0], [1.0, 0.0]], dtype=torch.float64),
    )
    log_tiny = float(torch.tensor(tiny, dtype=torch.float64).log())
    passed = forward(chain, torch.tensor([[0, 0, 0, 1]]))
    # Through the second coin: one switch each way. Through the first alone: three rare words.
    assert passed.log_probability.item() == pytest.approx(2 * log_tiny, rel=1e-10)
    assert passed.posteriors()[0, :, 1].tolist() == pytest.approx([1, 1, 1, 0], abs=1e-9)


@pytest.mark.thorough
def test_very_long_sentences_keep_their_precision() -> None:
    chain = random_chain(3, 4, 0)
    ids = torch.randint(0, 4, (2, 3000), generator=torch.Generator().manual_seed(1))
    passed = forward(chain, ids)
    log_probability, posteriors = fitted(chain, "log").score_samples(ids.reshape(-1, 1).numpy(), [3000, 3000])
    assert passed.log_probability.sum().item() == pytest.approx(log_probability, rel=1e-12)
    np.testing.assert_allclose(passed.posteriors().reshape(-1, 3).numpy(), posteriors, rtol=0, atol=1e-11)


def test_an_impossible_word_leaves_the_distribution_of_its_own_place_alone() -> None:
    chain = two_coins(1.0, 1.0)
    passed = forward(chain, torch.tensor([[0, 1, 0], [1, 0, 0]]))
    assert passed.log_probability.tolist() == [-inf, -inf]
    distribution = passed.smoothed().masked_distribution
    assert distribution[0, 1].tolist() == [1, 0]
    assert distribution[0, [0, 2]].isnan().all()
    assert distribution[1, 0].tolist() == [1, 0]
    assert passed.next_distribution()[0, :2].tolist() == [[0.5, 0.5], [1, 0]]
    assert passed.next_distribution()[0, 2].isnan().all()
    assert passed.posteriors().isnan().all()


@pytest.mark.parametrize(
    ("shape", "blocks"),
    [((32, 32), 4), ((32, 64), 2), ((40, 20), 1), ((30, 45), 3), ((7, 7), 1), ((16, 9), 1)],
)
def test_products_with_blocks_are_those_with_the_matrix(shape: tuple[int, int], blocks: int) -> None:
    rows, columns = shape
    mask = torch.block_diag(*[torch.ones(rows // blocks, columns // blocks)] * blocks).double()
    matrix = mask * random_distributions(rows, columns, 0)
    found = diagonal_blocks(matrix)
    assert found.shape == (blocks, rows // blocks, columns // blocks)
    left = random_distributions(5, rows, 1)
    out = torch.empty(5, 3, columns, dtype=torch.float64)[:, 1]
    assert_close(times_blocks(left, found, out=out), left @ matrix)
    assert_close(out, left @ matrix)


def test_a_number_outside_the_blocks_makes_one_block() -> None:
    matrix = torch.eye(32, dtype=torch.float64)
    assert len(diagonal_blocks(matrix)) == 4
    matrix[0, 31] = 1e-300
    assert len(diagonal_blocks(matrix)) == 1


@pytest.mark.parametrize("zeros", [0.0, 0.4])
def test_the_best_path_is_that_of_enumeration(zeros: float) -> None:
    for seed in range(0, 40, 10):
        chain = random_chain(3, 2, seed, zeros)
        whole, ids = joint(chain, 4), every_sentence(2, 4)
        best = viterbi(chain, ids)
        by_sentence = whole.reshape(3**4, 2**4)
        assert_close(best.log_probability, by_sentence.amax(0).log())
        possible = best.log_probability > -inf
        path_numbers = best.states @ torch.tensor([27, 9, 3, 1])
        reached = by_sentence[path_numbers, torch.arange(16)]
        assert_close(reached[possible].log(), best.log_probability[possible])


def test_the_best_path_is_that_of_hmmlearn_at_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    language = random_hmm(words=80, states=40, blocks=1, length=16, seed=0)
    ids = language.sample(20, torch.Generator().manual_seed(0)).ids
    theirs = [fitted(language.chain, "log").decode(one.reshape(-1, 1).numpy()) for one in ids]
    monkeypatch.setattr("isoloss.inference.forward_backward.TERMS_AT_ONCE", 3 * 40**2)
    best = viterbi(language.chain, ids)
    assert best.log_probability.tolist() == pytest.approx([score for score, _ in theirs], rel=1e-12)
    assert best.states.tolist() == [path.tolist() for _, path in theirs]


def test_range_constants_leave_room() -> None:
    """Products of two numbers at the bottom of their range and one more factor are normal float64 numbers."""
    bottom = hidden_markov_chain.FLOOR * hidden_markov_chain.FALL
    assert bottom**2 * hidden_markov_chain.FALL > np.finfo(np.float64).tiny
    assert np.finfo(np.float64).tiny * 1e6 < hidden_markov_chain.RANGE


def test_it_is_a_frozen_result() -> None:
    passed = forward(two_coins(0.9, 0.9), torch.tensor([[0, 1]]))
    assert isinstance(passed, Forward)
    before = [values.clone() for values in passed.predicted]
    passed.smoothed()
    passed.posteriors()
    passed.next_distribution()
    assert all(torch.equal(a, b) for a, b in zip(before, passed.predicted, strict=True))
