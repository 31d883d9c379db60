"""Tests of the Dyck variant beyond the contract."""

import itertools
import math

import pytest
import torch
from scipy.stats import binom, chi2

from isoloss.errors import BadInput
from isoloss.languages.dyck import counted_strings, dyck, mismatches
from isoloss.languages.sentences import Sentences


@pytest.mark.parametrize("length", [0, -2, 1, 7])
def test_lengths_without_balanced_strings_are_refused(length: int) -> None:
    with pytest.raises(BadInput, match="give an even length of at least 2"):
        dyck(length)


def test_long_strings_are_balanced_and_every_place_is_even() -> None:
    n = 4000
    drawn = dyck(200).sample(n, torch.Generator().manual_seed(0))
    assert (mismatches(drawn) == 0).all()
    lefts = (drawn.ids == 0).double().mean(0)
    assert (lefts - 0.5).abs().max() < 5 * 0.5 / math.sqrt(n)
    assert not torch.equal(drawn.ids[0], drawn.ids[1])
    expected = -math.log(math.comb(200, 100))
    assert dyck(200).log_probability(drawn).tolist() == pytest.approx([expected] * n, rel=1e-14)


def test_the_masked_bracket_is_the_missing_one() -> None:
    """A masked bracket's distribution depends only on the others; if these are invalid there is none."""
    language = dyck(4)
    right, wrong = Sentences.from_lists([[0, 1, 1, 0]]), Sentences.from_lists([[1, 1, 1, 0]])
    assert torch.equal(language.masked_log_probabilities(right)[0, 0], torch.tensor([0, -math.inf]).double())
    assert language.log_probability(wrong).tolist() == [-math.inf]
    with pytest.raises(BadInput, match="sentence 1: no word at all fits position 4"):
        language.masked_log_probabilities(wrong)
    with pytest.raises(BadInput, match="sentence 2 has 2 words, the language's have 4"):
        language.masked_log_probabilities(Sentences.from_lists([[0, 1, 1, 0], [0, 1]]))


def test_strings_too_many_for_digits_are_counted_by_magnitude() -> None:
    assert dict(dyck(8).facts())["strings"] == "70, all equally likely"
    assert dict(dyck(16_000).facts())["strings"] == "about 10^4814, all equally likely"
    assert "; about 10^4816, all" in dict(dyck(16_000, 0.5).facts())["strings"]


def test_beginnings_that_cannot_be_balanced_are_refused() -> None:
    following = dyck(4).next_log_probabilities(Sentences.from_lists([[0, 0]])).exp()[0]
    torch.testing.assert_close(following[1:], torch.tensor([[1 / 3, 2 / 3, 0], [0, 1, 0]]).double())
    with pytest.raises(BadInput, match="sentence 1: no sentence of the language goes on at position 4"):
        dyck(4).next_log_probabilities(Sentences.from_lists([[0, 0, 0]]))
    with pytest.raises(BadInput, match="goes on at position 6"):
        dyck(4).next_log_probabilities(Sentences.from_lists([[0, 1, 0, 1, 0]]))


def test_counted_strings_are_uniform_and_counted() -> None:
    n, length = 20_000, 6
    drawn = counted_strings(length, n, torch.Generator().manual_seed(0))
    assert torch.equal(drawn.target, (2 * drawn.sentences.ids.sum(1) - length).float())
    seen = torch.bincount(drawn.sentences.ids @ 2 ** torch.arange(length), minlength=2**length)
    statistic = ((seen - n / 2**length) ** 2).sum() / (n / 2**length)
    assert statistic < chi2.ppf(0.999, 2**length - 1)
    zero = (drawn.target == 0).double().mean().item()
    share = binom.pmf(length // 2, length, 0.5)
    assert zero == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / n))


def test_counted_strings_do_not_depend_on_how_calls_are_split() -> None:
    stream = torch.Generator().manual_seed(1)
    parts = [counted_strings(5, n, stream) for n in (3, 4)]
    whole = counted_strings(5, 7, torch.Generator().manual_seed(1))
    assert torch.equal(torch.cat([part.sentences.ids for part in parts]), whole.sentences.ids)
    assert torch.equal(torch.cat([part.target for part in parts]), whole.target)
    with pytest.raises(BadInput, match="give a length of at least 1"):
        counted_strings(0, 1, stream)


def test_a_mixtures_masked_bracket_depends_on_the_others_count_alone() -> None:
    """One apart they lean it to balance, and elsewhere it is even: by enumeration of T = 6."""
    length, share = 6, 0.5
    language = dyck(length, share)
    strings = Sentences.from_lists([list(words) for words in itertools.product((0, 1), repeat=length)])
    balanced = strings.ids.sum(1) * 2 == length
    probability = share * balanced.double() / math.comb(length, length // 2) + (1 - share) / 2**length
    assert probability.sum().item() == pytest.approx(1)
    torch.testing.assert_close(language.log_probability(strings).exp(), probability)
    right = language.masked_log_probabilities(strings).exp()[..., 1]
    number = strings.ids @ 2 ** torch.arange(length - 1, -1, -1)
    for place in range(length):
        bit = 2 ** (length - 1 - place)
        lefts, rights = probability[number & ~bit], probability[number | bit]
        torch.testing.assert_close(right[:, place], rights / (lefts + rights))
        others = mismatches(strings) - (2 * strings.ids[:, place] - 1)
        assert all(len(right[others == count, place].unique()) == 1 for count in others.unique())
        assert (right[others.abs() > 1, place] == 0.5).all()


def test_a_mixtures_draws_are_split_as_its_share_says() -> None:
    n, share = 20_000, 0.3
    drawn = dyck(10, share).sample(n, torch.Generator().manual_seed(0))
    expected = share + (1 - share) * math.comb(10, 5) / 2**10
    seen = (mismatches(drawn) == 0).double().mean().item()
    assert seen == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / n))
    assert dyck(10, share).digest != dyck(10).digest
    with pytest.raises(BadInput, match="goes on at position 6"):
        dyck(4, share).next_log_probabilities(Sentences.from_lists([[0, 1, 0, 1, 0]]))
    with pytest.raises(BadInput, match="give above 0, at most 1"):
        dyck(4, 0.0)


def test_mismatches_are_classes_of_uniform_strings() -> None:
    (task,) = dyck(6, 0.5).tasks()
    drawn = task.sample(200, torch.Generator().manual_seed(0))
    counts = torch.tensor([int(name) for name in task.classes])
    assert torch.equal(counts[drawn.labels], mismatches(drawn.sentences))
    assert dyck(6).tasks() == ()
