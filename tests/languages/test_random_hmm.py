"""HMMs drawn at random: their distributions, and what cannot be drawn."""

import itertools
from typing import Any

import pytest
import torch

from isoloss.errors import BadInput
from isoloss.languages.random_hmm import random_hmm


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"words": 0}, "at least one of everything"),
        ({"blocks": 3}, "8 states and 12 words cannot be cut into 3 equal blocks"),
        ({"words": 10, "blocks": 4}, "8 states and 10 words cannot be cut into 4 equal blocks"),
        (
            {"emission_concentration": float("inf")},
            "concentrations of 1 and inf make no random distributions",
        ),
    ],
)
def test_random_hmms_that_cannot_be_are_refused(numbers: dict[str, Any], message: str) -> None:
    usual = {"words": 12, "states": 8, "blocks": 2, "length": 3, "seed": 0}
    with pytest.raises(BadInput, match=message):
        random_hmm(**(usual | numbers))


def test_random_distributions_are_uniform_over_all_distributions() -> None:
    """A part of a uniform distribution over k places has mean 1/k and variance (k - 1) / (k² (k + 1))."""
    dense = random_hmm(words=5, states=400, blocks=1, length=2, seed=0)
    values = dense.emission.flatten()
    assert values.mean().item() == pytest.approx(1 / 5, abs=1e-12)
    assert values.var().item() == pytest.approx(4 / (25 * 6), rel=0.1)
    assert all((dense.transition > 0).all(1))
    pairs = itertools.combinations(range(5), 2)
    assert all(abs(torch.corrcoef(dense.emission[:, pair].T)[0, 1] + 1 / 4) < 0.2 for pair in pairs)


def test_concentrations_are_those_of_the_dirichlet_distributions() -> None:
    """Such a probability among k, with concentration α, has variance (k - 1) / (k² (kα + 1))."""
    dials = {"transition_concentration": 0.15, "emission_concentration": 0.5}
    language = random_hmm(words=200, states=400, blocks=40, length=2, seed=0, **dials)
    for distribution, k, concentration in ((language.transition, 10, 0.15), (language.emission, 5, 0.5)):
        variance = distribution.square().sum().item() / (400 * k) - 1 / k**2
        assert variance == pytest.approx((k - 1) / (k**2 * (k * concentration + 1)), rel=0.1)
    assert all(
        distribution.sum(1) == pytest.approx([1.0] * 400)
        for distribution in (language.transition, language.emission)
    )


def test_a_concentration_of_one_is_what_seeds_always_gave() -> None:
    numbers = {"words": 6, "states": 4, "blocks": 2, "length": 3, "seed": 3}
    assert random_hmm(**numbers, emission_concentration=1.0).digest == random_hmm(**numbers).digest
    with pytest.raises(BadInput, match="concentrations of 0 and 1 make no random distributions"):
        random_hmm(**numbers, transition_concentration=0.0)
