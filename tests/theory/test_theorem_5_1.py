import itertools
from fractions import Fraction

import pytest
import torch

from isoloss.errors import BadInput
from isoloss.theory.one_layer_transformer import all_strings, string_classes
from isoloss.theory.theorem_5_1 import (
    Theorem51Settings,
    corrected_failure,
    counted_failure,
    paper_failure,
    population_losses,
    refitted_outputs,
    simulated_failure,
)
from isoloss.theory.zero_loss_solutions import split_neurons, two_neurons


def enumerated_failure(model, length, samples):
    """Every sample of n of the 2^T strings, with the output layer fitted to each."""
    strings = all_strings(length)
    drawn = torch.tensor(list(itertools.product(range(len(strings)), repeat=samples)))
    features = model.features(strings.tokens)
    losses = population_losses(refitted_outputs(features, strings.target, drawn), strings)
    return float(Fraction(int((losses > 1e-9).sum()), len(drawn)))


@pytest.mark.parametrize(("length", "samples"), [(2, 1), (2, 4), (4, 1), (4, 2), (4, 3), (6, 2)])
def test_count_and_formula_are_what_fitting_to_every_sample_gives(length, samples):
    expected = enumerated_failure(two_neurons(length), length, samples)
    assert counted_failure(length, samples) == expected
    assert corrected_failure(length, samples) == pytest.approx(expected, abs=1e-12)
    assert paper_failure(samples) < expected - 0.01


def test_the_simulation_agrees_with_enumeration_also_for_features_that_know_the_first_bracket():
    for model in (two_neurons(4), split_neurons(4)):
        expected = enumerated_failure(model, 4, 3)
        found = simulated_failure(model, 3, 4000, seed=901)
        assert abs(found.value - expected) < 4 * found.standard_error
        assert found.n == 4000
    assert simulated_failure(two_neurons(4), 3, 4000, seed=901) == simulated_failure(
        two_neurons(4), 3, 4000, seed=901
    )


@pytest.mark.thorough
def test_the_error_bar_covers_and_is_never_zero():
    expected, covered = counted_failure(4, 4), 0
    for seed in range(900, 1000):
        found = simulated_failure(two_neurons(4), 4, 100, seed)
        covered += abs(found.value - expected) <= 1.96 * found.standard_error
    assert covered >= 88
    assert simulated_failure(two_neurons(2), 1, 50, seed=901).value == 1.0
    assert simulated_failure(two_neurons(2), 1, 50, seed=901).standard_error > 0.01


def test_the_refitted_layer_is_the_shortest_that_fits():
    generator = torch.Generator().manual_seed(901)
    features = torch.randn(6, 9, generator=generator, dtype=torch.float64)
    target = torch.randn(6, generator=generator, dtype=torch.float64)
    drawn = torch.tensor([[0, 2, 3], [5, 5, 1]])
    outputs = refitted_outputs(features, target, drawn)
    for row, indices in zip(outputs, drawn, strict=True):
        torch.testing.assert_close(row[indices], target[indices])
        rows = features[indices.unique()]
        head = rows.T @ torch.linalg.solve(rows @ rows.T, target[indices.unique()])
        torch.testing.assert_close(row, features @ head)


def test_classes_stand_for_all_strings_under_the_flattest_solutions():
    strings, classes = all_strings(6), string_classes(6)
    lefts = strings.tokens.sum(2) > 0
    rows = torch.where(lefts[:, 0], 0, 6) + lefts[:, 1:].sum(1)
    for model in (two_neurons(6), split_neurons(6)):
        torch.testing.assert_close(
            model.features(strings.tokens), model.features(classes.tokens)[rows], rtol=0, atol=1e-12
        )


@pytest.mark.parametrize(
    ("length", "samples", "says"),
    [
        (5, 2, "even length"),
        (0, 2, "even length"),
        (6, 0, "at least 1"),
        (202, 1, "at most 200"),
        (100, 1001, "at most 100,000"),
    ],
)
def test_sizes_that_cannot_be_are_refused(length, samples, says):
    with pytest.raises(BadInput, match=says):
        counted_failure(length, samples)


def test_no_repetitions_are_refused():
    with pytest.raises(BadInput, match="simulate nothing"):
        simulated_failure(two_neurons(4), 2, 0, seed=0)


def test_the_tolerance_is_four_standard_errors_of_a_half():
    settings = Theorem51Settings(length=6, samples=4, longest_curve=6, repetitions=400, seed=1)
    assert settings.tolerance == pytest.approx(4 * (0.5 * 0.5 / 400) ** 0.5)
