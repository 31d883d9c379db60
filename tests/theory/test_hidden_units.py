"""Figure 12's numbers against closed forms, and against weights that are not solutions."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from isoloss.errors import BadInput
from isoloss.results.verdict import Verdict
from isoloss.theory.hidden_units import (
    COUNTING,
    FULL,
    SAMPLED,
    SMOKE,
    hidden_units,
    solution_findings,
    squared_correlations,
    unit_findings,
)
from isoloss.theory.one_layer_transformer import OneLayerTransformer, all_strings, masked_strings
from isoloss.theory.zero_loss_solutions import random_features, two_neurons


def test_a_units_squared_correlation_is_that_of_its_direction() -> None:
    """g* = -1ᵀs and V_i h = V_i s / T over independent signs s: the square is (V_i 1)² / (T |V_i|²)."""
    model = random_features(masked_strings(4), 60, torch.Generator().manual_seed(0))
    on_brackets = model.value[:, :4]
    expected = on_brackets.sum(1).square() / (4 * on_brackets.square().sum(1))
    found = squared_correlations(model, all_strings(4))
    assert found.tolist() == pytest.approx(expected.tolist(), abs=1e-12)


def test_the_full_size_is_the_papers_and_supports_all() -> None:
    statement = hidden_units(FULL)
    assert FULL.length == 6
    assert {finding.verdict for finding in statement.findings} == {Verdict.SUPPORTED}
    encodings = statement.panels[0].data
    # A column a bracket and z; the mask stands in the other half of the coordinates.
    assert encodings.shape[0] == 7 * 12
    ones = encodings.filter((encodings["height"] != 0) & (encodings["column"] <= 6))
    assert ones["coordinate"].to_list() == [1, 2, 9, 4, 5, 6]


def test_a_solution_that_is_none_is_found_out() -> None:
    strings = masked_strings(4)
    counting = two_neurons(4, 96)
    sampled = random_features(strings, 96, torch.Generator().manual_seed(1))
    broken = replace(counting, output=1.01 * counting.output)
    of_sampled, of_counting = (squared_correlations(m, all_strings(4)) for m in (sampled, counting))
    findings = (
        *solution_findings(SMOKE, strings, {COUNTING: broken, SAMPLED: broken}),
        *unit_findings(4, of_sampled, of_counting),
    )
    assert {finding.verdict for finding in findings} == {Verdict.NOT_SUPPORTED}


def test_more_units_shown_than_there_are_is_refused() -> None:
    with pytest.raises(BadInput, match="12 of 5 neurons"):
        hidden_units(replace(FULL, neurons=5))


def test_what_is_tolerated_is_fixed_before_anything_is_measured() -> None:
    """Half as much again as chance is too much, however small the sample."""
    findings = [
        unit_findings(4, torch.ones(2), 0.375 + spread * torch.tensor([-1.0, 1.0]).repeat(50))[1]
        for spread in (0.001, 0.3)
    ]
    assert findings[0].tolerance == findings[1].tolerance < 0.125
    assert findings[0].standard_error < findings[1].standard_error
    assert findings[0].verdict == findings[1].verdict == Verdict.NOT_SUPPORTED


def test_squared_correlations_are_those_of_weighted_samples():
    """Of strings that are not equally likely, so that a unit has a mean; against numpy."""
    strings = all_strings(4)
    generator = torch.Generator().manual_seed(900)
    likely = torch.rand(len(strings), generator=generator, dtype=torch.float64)
    strings = replace(strings, probability=likely / likely.sum())
    model = OneLayerTransformer(
        *(
            torch.randn(shape, generator=generator, dtype=torch.float64)
            for shape in ((2, 8), (2, 8), (3, 8), 3)
        )
    )
    units = (model.attended(strings.tokens) @ model.value.T).numpy()
    for found, unit in zip(squared_correlations(model, strings).tolist(), units.T, strict=True):
        (a, b), (_, c) = np.cov(unit, strings.target.numpy(), aweights=strings.probability.numpy())
        assert found == pytest.approx(b**2 / (a * c))
