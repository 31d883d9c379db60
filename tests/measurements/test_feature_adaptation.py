import numpy as np
import pytest
import torch

from isoloss.errors import BadInput
from isoloss.measurements.accuracy import AsTheyAre, Projected, Standardised, gaussian_projection

GENERATOR = torch.Generator().manual_seed(0)
TRAIN = 5 + torch.randn(40, 6, generator=GENERATOR) * torch.tensor([1e-3, 1.0, 10.0, 3.0, 2.0, 0.5])
TEST = torch.randn(7, 6, generator=GENERATOR)


def test_features_as_they_are_are_left_alone() -> None:
    assert AsTheyAre().adapted(TRAIN, TEST) == (TRAIN, TEST)


def test_standardised_features_are_numpys() -> None:
    train, test = Standardised().adapted(TRAIN, TEST)
    plain, unseen = TRAIN.numpy().astype(float), TEST.numpy().astype(float)
    mean, deviation = plain.mean(0), plain.std(0)
    np.testing.assert_allclose(train.numpy(), (plain - mean) / deviation, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(test.numpy(), (unseen - mean) / deviation, rtol=1e-3)


def test_the_scale_of_the_features_is_gone() -> None:
    for once, scaled in zip(
        Standardised().adapted(TRAIN.double(), TEST.double()),
        Standardised().adapted(100 * TRAIN.double() - 3, 100 * TEST.double() - 3),
        strict=True,
    ):
        torch.testing.assert_close(once, scaled)


def test_a_feature_that_is_constant_in_training_says_nothing() -> None:
    constant = TRAIN.clone()
    constant[:, 2] = 0.1
    train, test = Standardised().adapted(constant, TEST)
    assert not train[:, 2].any()
    assert not test[:, 2].any()
    assert train.isfinite().all()


def test_both_are_projected_by_one_matrix_and_narrow_ones_not_at_all() -> None:
    train, test = Projected(dimension=4, seed=3).adapted(TRAIN, TEST)
    both = gaussian_projection(torch.cat([TRAIN, TEST]), seed=3, dimension=4)
    torch.testing.assert_close(torch.cat([train, test]), both)
    assert Projected(dimension=6).adapted(TRAIN, TEST) == (TRAIN, TEST)
    with pytest.raises(BadInput, match="give at least 1"):
        Projected(dimension=0)
