"""Heads that count brackets, fitted on a few strings, against features whose errors are known."""

import pytest
import torch

from isoloss.errors import BadInput
from isoloss.languages.dyck import dyck, mismatches
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.measurements.quantity import Subject
from isoloss.measurements.sample_efficiency import (
    CountErrorQuantity,
    count_errors,
    every_string,
    median_over_draws,
)
from isoloss.measurements.task_sentences import sentence_features
from isoloss.models.transformers import PostLayerNormTransformer, Shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.progress import silent
from isoloss.results.tensors import drawn_of, tensors_of

STRINGS = every_string(6)


def test_what_counts_by_itself_is_read_off_one_string() -> None:
    """With the feature g* itself, a head fitted on one string with g* ≠ 0 has no error; with noise it has."""
    target = mismatches(STRINGS).double()
    drawn = (target != 0).nonzero()[:5]
    assert count_errors(target[:, None], STRINGS, drawn).tolist() == pytest.approx([0.0] * 5, abs=1e-12)
    noise = torch.randn(len(STRINGS), 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    errors = count_errors(noise, STRINGS, torch.arange(20).view(4, 5))
    assert errors.min() > 0.5
    torch.testing.assert_close(count_errors(noise + 3, STRINGS, torch.arange(20).view(4, 5)), errors)
    one = torch.zeros(len(STRINGS), 1, dtype=torch.float64)
    assert count_errors(one, STRINGS, drawn).tolist() == pytest.approx([1.0] * 5)


def test_the_medians_error_is_half_the_distance_of_its_rank_one_deviation_away() -> None:
    """Of 0 to 8 the ranks are 1/3 and 2/3."""
    found = median_over_draws(torch.arange(9, dtype=torch.float64))
    assert (found.value, found.standard_error, found.n) == (4, pytest.approx((16 / 3 - 8 / 3) / 2), 9)


def test_the_quantity_is_drawn_kept_and_measured() -> None:
    quantity, language = CountErrorQuantity((2, 4), draws=3, seed=1), dyck(6, 0.5)
    drawn = quantity.draw(language, MaskedObjective(), silent)
    again = drawn_of(quantity.drawn_as, tensors_of(drawn))
    assert torch.equal(again.drawn, drawn.drawn)
    other = CountErrorQuantity((2, 4), draws=3, seed=2).draw(language, MaskedObjective(), silent)
    assert not torch.equal(other.drawn, drawn.drawn)
    model = PostLayerNormTransformer(Shape(8, 2, 1, 16)).build(2, 6, seed=0)
    subject = Subject("one", MaskedObjective(), {}, language)
    records = quantity.measure(model, drawn, subject, silent).records
    columns = quantity.columns(records)
    assert {*columns} == {f"count_error_{n}{end}" for n in (2, 4) for end in ("", "_error")}
    of_first_bracket = sentence_features(model, STRINGS)[:, :8].double()
    for record, strings in zip(records, quantity.samples, strict=True):
        errors = count_errors(of_first_bracket, STRINGS, drawn.drawn[:, :strings])
        assert record.value == pytest.approx(float(errors.median()))
        assert record.n == 3


def test_what_cannot_be_counted_is_refused() -> None:
    with pytest.raises(BadInput, match="counts brackets, and a PCFG has none"):
        CountErrorQuantity((2,), draws=2, seed=1).draw(pcfg(laptop_grammar(0)), MaskedObjective(), silent)
    with pytest.raises(BadInput, match="at least 2 draws"):
        CountErrorQuantity((2,), draws=1, seed=1)
