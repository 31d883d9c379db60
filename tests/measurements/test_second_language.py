import torch

from isoloss.experiments.chosen_languages import decided_grammar
from isoloss.languages.sibling import sibling
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.measurements.quantity import Subject
from isoloss.measurements.second_language import SecondLanguageQuantity, average_of
from isoloss.models.shapes import laptop_shape
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.soft_labels import SoftLabels
from isoloss.pretraining.adamw import AdamW
from isoloss.progress import silent


def test_a_model_learns_the_second_language_and_is_left_as_it_was() -> None:
    language = decided_grammar()
    architecture = PreLayerNormTransformer(laptop_shape(16), dropout=0.0, attention="eager")
    model = architecture.build(len(language.vocabulary), language.maximum_length, seed=0)
    before = [weight.detach().clone() for weight in model.parameters()]
    rule = AdamW(1e-2, warm_up_steps=2, weight_decay=0.0)
    quantity = SecondLanguageQuantity(50, 1, rule, steps=30, batch_size=32, every=10, target=0.3)
    drawn = quantity.draw(language, SoftLabels(), silent)
    subject = Subject("model", SoftLabels(), {}, language)
    columns = quantity.columns(quantity.measure(model, drawn, subject, silent).records)
    assert all(map(torch.equal, before, model.parameters()))
    assert set(columns) == set(quantity.column_names)
    evaluation = EvaluationSet.draw(sibling(language, 1), 50, seed=1)
    untrained = float(exact_loss(model, MaskedObjective(), evaluation).kl.mean())
    assert float(str(columns["second_kl"])) < untrained
    assert 0 < float(str(columns["second_steps"])) <= 30


def test_the_average_of_two_models_is_that_of_their_weights() -> None:
    first, second = (
        PreLayerNormTransformer(laptop_shape(16)).build(words=6, maximum_length=8, seed=seed)
        for seed in (0, 1)
    )
    averaged = average_of(first, second)
    for mean, a, b in zip(averaged.parameters(), first.parameters(), second.parameters(), strict=True):
        assert torch.allclose(mean, (a + b) / 2)
