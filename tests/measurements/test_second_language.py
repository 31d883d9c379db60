import pytest
import torch

from isoloss.errors import BadInput
from isoloss.experiments.languages import decided_grammar, small_hmm
from isoloss.languages.dyck import dyck
from isoloss.languages.grammar import Symbol
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.measurements.quantity import Subject
from isoloss.measurements.second_language import SecondLanguageQuantity, average_of, sibling
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.soft_labels import SoftLabels
from isoloss.pretraining.descent import AdamW
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


def test_a_grammar_and_its_sibling_differ_below_the_roots_alone() -> None:
    first = decided_grammar()
    second = sibling(first, seed=1)
    changed = {a.left for a, b in zip(first.grammar.rules, second.grammar.rules, strict=True) if a != b}
    assert changed
    assert changed <= {Symbol(f"R{n}") for n in range(1, 4)}
    assert second.digest == sibling(first, seed=1).digest != first.digest
    assert second.vocabulary == first.vocabulary


def test_an_hmm_and_its_sibling_share_emissions() -> None:
    first = small_hmm()
    second = sibling(first, seed=1)
    assert torch.equal(second.emission, first.emission)
    assert not torch.equal(second.transition, first.transition)
    assert torch.equal(second.transition.flatten().sort().values, first.transition.flatten().sort().values)


def test_a_language_without_levels_is_refused() -> None:
    with pytest.raises(BadInput, match="no levels that a second language could share"):
        sibling(dyck(8), seed=1)
