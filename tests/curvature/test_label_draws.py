import itertools

import pytest
import torch

from isoloss.curvature.per_sentence.directions import drawn_directions, fisher_directions, sign_bits, signs_of


def test_a_sentences_bits_depend_on_the_seed_and_its_number_alone():
    whole = sign_bits(torch.tensor([4, 5, 6]), torch.tensor([2, 1, 3]), 13, seed=1)
    assert whole.shape == (6, 2)
    assert torch.equal(whole[3:], sign_bits(torch.tensor([6]), torch.tensor([3]), 13, seed=1))
    assert torch.equal(whole[:1], sign_bits(torch.tensor([4]), torch.tensor([1]), 13, seed=1))
    assert not torch.equal(whole, sign_bits(torch.tensor([4, 5, 6]), torch.tensor([2, 1, 3]), 13, seed=2))


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
    monkeypatch.setattr("isoloss.curvature.per_sentence.directions.NUMBERS_AT_ONCE", at_once)
    logits = torch.randn(7, 13, generator=torch.Generator().manual_seed(0))
    bits = sign_bits(torch.arange(7), torch.ones(7, dtype=torch.int64), 13, seed=0)
    found = drawn_directions(logits, bits)
    expected = fisher_directions(logits, signs_of(bits, 13, torch.float32))
    torch.testing.assert_close(found.cotangents, expected.cotangents)
    torch.testing.assert_close(found.mean_squares, expected.mean_squares)
