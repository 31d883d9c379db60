"""The length of the features' mean: without bias, with the error that its estimates have."""

import pytest
import torch

from isoloss.errors import BadInput
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.measurements.quantity import Subject
from isoloss.measurements.task_sentences import FeatureMeanQuantity, mean_square, sentence_features
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.progress import silent
from thorough_cases import others_thorough


def test_it_is_the_mean_of_the_products_of_all_pairs() -> None:
    vectors = torch.randn(7, 3, generator=torch.Generator().manual_seed(900), dtype=torch.float64)
    products = [vectors[i] @ vectors[j] for i in range(7) for j in range(7) if i != j]
    assert mean_square(vectors).value == pytest.approx(float(torch.stack(products).mean()))


@pytest.mark.parametrize("length", others_thorough([3.0, 0.3]))
def test_it_has_no_bias_and_its_error_is_that_of_its_estimates(length: float) -> None:
    """The square of the sample's own mean is too large by 5 / 60."""
    generator, mean = torch.Generator().manual_seed(900), torch.full((5,), length / 5**0.5)
    found = [mean_square(mean + torch.randn(60, 5, generator=generator)) for _ in range(2000)]
    values = torch.tensor([each.value for each in found])
    assert float(values.mean()) == pytest.approx(length**2, abs=4 * float(values.std()) / 2000**0.5)
    told = torch.tensor([each.standard_error for each in found]).square().mean().sqrt()
    assert float(told) == pytest.approx(float(values.std()), rel=0.06 if length > 1 else 0.2)


def test_two_vectors_are_too_few() -> None:
    with pytest.raises(BadInput, match="the mean of 2 vectors has no error bar; give at least 3"):
        mean_square(torch.ones(2, 4))


def test_the_quantity_is_of_what_a_probe_reads() -> None:
    language = pcfg(laptop_grammar(0))
    architecture = PreLayerNormTransformer(laptop_shape(16), dropout=0.0)
    model = architecture.build(len(language.vocabulary), language.maximum_length, seed=0)
    quantity, objective = FeatureMeanQuantity(50, 1), MaskedObjective()
    drawn = quantity.draw(language, objective, silent)
    found = quantity.measure(model, drawn, Subject("step-1", objective, {}, language), silent)
    features = sentence_features(model, drawn).double()
    columns = quantity.columns(found.records)
    assert list(columns) == list(quantity.column_names)
    assert columns["feature_mean_square"] == mean_square(features).value
    assert columns["feature_variance"] == pytest.approx(float(features.var(0).sum()))
