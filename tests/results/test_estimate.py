import pytest
import torch

from isoloss.errors import BadInput
from isoloss.results.estimate import (
    deviation_over_subsets,
    mean_over_sentences,
    mean_over_tokens,
    paired_difference,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_error_bar_of_a_mean_covers_the_true_mean():
    draws = torch.rand(4000, 60, generator=generator(), dtype=torch.float64)
    estimates = [mean_over_sentences(row) for row in draws]
    covered = [abs(e.value - 0.5) < 1.96 * e.standard_error for e in estimates]
    assert 0.93 < sum(covered) / len(covered) < 0.97


def test_token_average_is_the_mean_of_all_words():
    words = [[1.0, 2.0, 4.0], [8.0], [16.0, 32.0]]
    means = torch.tensor([sum(w) / len(w) for w in words], dtype=torch.float64)
    estimate = mean_over_tokens(means, torch.tensor([3, 1, 2]))
    assert estimate.value == pytest.approx(sum(map(sum, words)) / 6, rel=1e-14)


def test_token_averaged_error_bar_agrees_with_the_jackknife():
    n = 2000
    lengths = torch.randint(1, 9, (n,), generator=generator())
    values = torch.randn(n, generator=generator(1), dtype=torch.float64) + lengths
    weighted = lengths * values
    left_out = (weighted.sum() - weighted) / (lengths.sum() - lengths)
    jackknife = ((n - 1) / n * (left_out - left_out.mean()).square().sum()).sqrt()
    assert mean_over_tokens(values, lengths).standard_error == pytest.approx(float(jackknife), rel=1e-3)


def test_equal_lengths_make_both_averages_one():
    values = torch.randn(50, generator=generator(), dtype=torch.float64)
    tokens, sentences = mean_over_tokens(values, torch.full((50,), 7)), mean_over_sentences(values)
    assert tokens.value == pytest.approx(sentences.value, rel=1e-12)
    assert tokens.standard_error == pytest.approx(sentences.standard_error, rel=1e-12)


def test_pairing_removes_what_both_sides_share():
    shared = 10 * torch.randn(500, generator=generator(), dtype=torch.float64)
    first = shared + torch.randn(500, generator=generator(1))
    second = shared + torch.randn(500, generator=generator(2))
    difference = paired_difference(first, second)
    assert difference.value == pytest.approx(float(first.mean() - second.mean()), rel=1e-12)
    assert difference.standard_error < 0.2 * mean_over_sentences(first).standard_error


def test_deviation_over_five_subsets_has_the_size_that_theory_gives():
    deviations = [
        deviation_over_subsets(torch.randn(500, generator=generator(seed), dtype=torch.float64)).value
        for seed in range(400)
    ]
    assert (sum(d**2 for d in deviations) / 400) ** 0.5 == pytest.approx(100**-0.5, rel=0.1)


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_sentences_have_no_error_bar(n):
    with pytest.raises(BadInput, match=f"{n} sentences have no standard error"):
        mean_over_sentences(torch.ones(n))


def test_a_difference_needs_the_same_sentences():
    with pytest.raises(BadInput, match="not 3 and 2"):
        paired_difference(torch.ones(3), torch.ones(2))


def test_subsets_need_sentences_enough():
    with pytest.raises(BadInput, match="4 sentences cannot be split into 5"):
        deviation_over_subsets(torch.ones(4))
