import math

import numpy as np
import pytest
import torch

from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences
from isoloss.measurements.accuracy import AsTheyAre, Centred, Projected, Standardised, gaussian_projection
from isoloss.measurements.quantity import Subject
from isoloss.measurements.task_sentences import FeatureMeanQuantity, mean_square, sentence_features
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.tokens import CLS, FIRST_WORD
from isoloss.progress import silent
from thorough_cases import others_thorough


@pytest.mark.parametrize("memory_bytes", [1, 1 << 28])
def test_words_vectors_in_order_without_cls_and_zero_after_the_end(model, language, memory_bytes):
    sentences = language.sample(30, torch.Generator().manual_seed(0))
    features = sentence_features(model, sentences, memory_bytes).view(30, 4, 8)
    assert model.training
    model.eval()
    for row, words in enumerate(sentences.ids.tolist()):
        length = int(sentences.lengths[row])
        tokens = torch.tensor([[CLS] + [word + FIRST_WORD for word in words[:length]]])
        with torch.no_grad():
            last = model.base_model(input_ids=tokens).last_hidden_state[0, 1:]
        torch.testing.assert_close(features[row, :length], last, rtol=1e-9, atol=1e-12)
        assert not features[row, length:].any()


def test_features_of_half_precision_are_given_in_that_of_heads(model, language):
    sentences = language.sample(5, torch.Generator().manual_seed(0))
    assert sentence_features(model, sentences).dtype == torch.float64
    features = sentence_features(model.bfloat16(), sentences)
    assert features.dtype == torch.float32
    assert torch.equal(features, features.bfloat16().float())


def test_a_feature_that_is_not_finite_is_named(model):
    sentences = Sentences.from_lists([[0, 1, 0, 0], [1, 1, 0, 1], [0, 2, 1, 0]])
    with torch.no_grad():
        model.get_input_embeddings().weight[FIRST_WORD + 2] = math.nan
    with pytest.raises(BadInput, match="features of sentence 3 are not finite"):
        sentence_features(model, sentences)


def test_projection_keeps_squared_lengths_on_average_and_is_linear():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(5, 300, generator=generator, dtype=torch.float64)
    projected = gaussian_projection(features, seed=1, dimension=4096)
    torch.testing.assert_close(projected.square().sum(1), features.square().sum(1), rtol=0.1, atol=0)
    torch.testing.assert_close(gaussian_projection(2 * features[2:3], 1, 4096), 2 * projected[2:3])
    assert not torch.equal(gaussian_projection(features, 2, 4096), projected)


GENERATOR = torch.Generator().manual_seed(0)
TRAIN = 5 + torch.randn(40, 6, generator=GENERATOR) * torch.tensor([1e-3, 1.0, 10.0, 3.0, 2.0, 0.5])
TEST = torch.randn(7, 6, generator=GENERATOR)


def test_features_as_they_are_are_left_alone() -> None:
    assert AsTheyAre().adapted(TRAIN, TEST) == (TRAIN, TEST)


def test_centred_features_have_lost_what_all_training_sentences_share() -> None:
    train, test = Centred().adapted(TRAIN, TEST)
    torch.testing.assert_close(train.mean(0), torch.zeros(6), rtol=0, atol=1e-5)
    torch.testing.assert_close(train[1:] - train[0], TRAIN[1:] - TRAIN[0])
    torch.testing.assert_close(test - train[0], TEST - TRAIN[0])


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


def test_the_mean_square_is_the_mean_of_the_products_of_all_pairs() -> None:
    vectors = torch.randn(7, 3, generator=torch.Generator().manual_seed(900), dtype=torch.float64)
    products = [vectors[i] @ vectors[j] for i in range(7) for j in range(7) if i != j]
    assert mean_square(vectors).value == pytest.approx(float(torch.stack(products).mean()))


@pytest.mark.parametrize("length", others_thorough([3.0, 0.3]))
def test_the_mean_square_has_no_bias_and_its_error_is_that_of_its_estimates(length: float) -> None:
    """The square of the sample's own mean is too large by 5 / 60."""
    generator, mean = torch.Generator().manual_seed(900), torch.full((5,), length / 5**0.5)
    found = [mean_square(mean + torch.randn(60, 5, generator=generator)) for _ in range(2000)]
    values = torch.tensor([each.value for each in found])
    assert float(values.mean()) == pytest.approx(length**2, abs=4 * float(values.std()) / 2000**0.5)
    told = torch.tensor([each.standard_error for each in found]).square().mean().sqrt()
    assert float(told) == pytest.approx(float(values.std()), rel=0.06 if length > 1 else 0.2)


def test_two_vectors_are_too_few_for_a_mean_square() -> None:
    with pytest.raises(BadInput, match="the mean of 2 vectors has no error bar; give at least 3"):
        mean_square(torch.ones(2, 4))


def test_the_length_of_the_mean_is_of_what_a_probe_reads(model, language):
    quantity, objective = FeatureMeanQuantity(50, 1), MaskedObjective()
    drawn = quantity.draw(language, objective, silent)
    found = quantity.measure(model, drawn, Subject("step-1", objective, {}, language), silent)
    features = sentence_features(model, drawn).double()
    columns = quantity.columns(found.records)
    assert list(columns) == list(quantity.column_names)
    assert columns["feature_mean_square"] == mean_square(features).value
    assert columns["feature_variance"] == pytest.approx(float(features.var(0).sum()))
