"""Damage to the weights against what second order says, rounding against its definition, and siblings."""

import copy
from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.curvature.weight_changes import rounded_to
from isoloss.errors import BadInput
from isoloss.experiments.languages import decided_grammar, small_hmm
from isoloss.languages.dyck import dyck
from isoloss.languages.grammar import Symbol
from isoloss.languages.language import Language
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.languages.random_hmm import random_hmm
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.measurements.quantity import Subject
from isoloss.measurements.robustness import (
    SecondLanguageQuantity,
    WeightDamageQuantity,
    average_of,
    first_step_at,
    rounded,
    sibling,
)
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.soft_labels import SoftLabels
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.flatness_regularised import weight_noise
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import Training
from isoloss.progress import silent
from isoloss.results.estimate import sample_mean
from isoloss.results.record import Record
from isoloss.seeds import derived_seed


def test_rounding_is_to_the_nearest_of_the_levels() -> None:
    weights = torch.randn(5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for bits in (2, 4, 8):
        levels = torch.arange(-(2 ** (bits - 1)) + 1, 2 ** (bits - 1)).double() / (2 ** (bits - 1) - 1)
        scale = weights.abs().amax(1, keepdim=True)
        distances = (weights[:, :, None] - scale[:, :, None] * levels).abs()
        assert torch.allclose((rounded_to(weights, bits) - weights).abs(), distances.amin(2))
    with pytest.raises(BadInput, match="take at least 2"):
        rounded_to(weights, bits=1)


def test_a_model_is_rounded_while_the_context_is_open() -> None:
    model = torch.nn.Linear(6, 4)
    before = copy.deepcopy(model.state_dict())
    with rounded(model, bits=4):
        assert all(len(row.unique()) <= 15 for row in model.weight)
        assert not torch.equal(model.weight, before["weight"])
        assert torch.equal(model.bias, before["bias"])
    assert torch.equal(model.weight, before["weight"])


def untrained(language: Language) -> PreTrainedModel:
    architecture = PreLayerNormTransformer(laptop_shape(16), dropout=0.0, attention="eager")
    return architecture.build(len(language.vocabulary), language.maximum_length, seed=0)


def records_of(
    quantity: WeightDamageQuantity | SecondLanguageQuantity, model: PreTrainedModel, language: Language
) -> Sequence[Record]:
    drawn: Any = quantity.draw(language, SoftLabels(), silent)
    return quantity.measure(model, drawn, Subject("model", SoftLabels(), {}, language), silent).records


def test_every_strength_has_its_column_and_the_model_is_left_as_it_was() -> None:
    language = pcfg(laptop_grammar(0))
    model = untrained(language)
    before = copy.deepcopy(model.state_dict())
    quantity = WeightDamageQuantity(10, 1, noises=(1e-9, 1.0), bits=(16, 2), draws=2)
    columns = quantity.columns(records_of(quantity, model, language))
    assert set(columns) == set(quantity.column_names)
    assert columns["kl_noise_1e-09"] == pytest.approx(columns["kl_bits_16"], abs=1e-3)
    assert columns["kl_noise_1"] > columns["kl_noise_1e-09"] + 0.01  # type: ignore[operator]
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


@cache
def evaluation_of(language: Language) -> EvaluationSet:
    return EvaluationSet.draw(language, 20, seed=1)


def kl_of(model: PreTrainedModel, language: Language) -> torch.Tensor:
    """Of each of 20 sentences drawn with seed 1."""
    return exact_loss(model, MaskedObjective(), evaluation_of(language)).kl


def test_noise_is_the_mean_over_draws_and_both_their_signs() -> None:
    language = decided_grammar()
    model = untrained(language)
    quantity = WeightDamageQuantity(20, 1, noises=(0.1, 1.0), bits=(), draws=3)
    records = records_of(quantity, model, language)
    for record, noise in zip(records, quantity.noises, strict=True):
        pairs = torch.zeros(3, dtype=torch.float64)
        for draw, sign in product(range(3), (1, -1)):
            moved = copy.deepcopy(model)
            with torch.no_grad():
                weights = list(moved.parameters())
                for weight, shift in zip(weights, weight_noise(weights, 1, draw), strict=True):
                    weight += sign * noise * shift
            pairs[draw] += kl_of(moved, language).mean() / 2
        expected = sample_mean(pairs)
        assert record.value == pytest.approx(expected.value, rel=1e-4)
        assert record.standard_error == pytest.approx(expected.standard_error, rel=1e-2)


@pytest.mark.slow
def test_small_noise_costs_half_its_variance_times_the_trace() -> None:
    language = pcfg(laptop_grammar(0))
    model = untrained(language)
    training = Training(model, SoftLabels(), language, 0, 400, 64)
    rule = AdamW(5e-3, warm_up_steps=20, weight_decay=0.0, decay="cosine").build(training)
    with Stream(language, SoftLabels(), 64, 0).batches(0, 400) as batches:
        for step in range(1, 401):
            rule.step(next(batches), step)
    noise = 0.002
    quantity = WeightDamageQuantity(200, 1, noises=(1e-9, noise), bits=(8,), draws=40)
    columns = quantity.columns(records_of(quantity, model, language))
    sentences = language.sample(500, torch.Generator().manual_seed(2))
    batch = MaskedObjective().draw(sentences, torch.Generator().manual_seed(3))
    trace = fisher_trace(model, [batch], MaskedObjective()).estimate
    rise = float(columns[f"kl_noise_{noise:g}"]) - float(columns["kl_noise_1e-09"])  # type: ignore[arg-type]
    assert rise == pytest.approx(noise**2 / 2 * trace.value, rel=0.2)
    assert set(columns) == set(quantity.column_names)


def test_dropout_while_a_second_language_is_learnt_is_the_same_each_time() -> None:
    language = decided_grammar()
    model = PreLayerNormTransformer(laptop_shape(16), 0.5).build(
        len(language.vocabulary), language.maximum_length, 1
    )
    rule = AdamW(1e-2, warm_up_steps=1, weight_decay=0.0)
    quantity = SecondLanguageQuantity(20, 1, rule, steps=2, batch_size=8, every=2, target=0.3)
    before = torch.get_rng_state()
    found = records_of(quantity, model, language)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    assert records_of(quantity, model, language) == found


def test_each_number_of_the_second_language_is_that_of_its_models() -> None:
    """Two copies, each trained for two steps on sentences of its own."""
    language = decided_grammar()
    second, model = sibling(language, 1), untrained(language)
    before = float(kl_of(model, second).mean())
    target, rule = before - 0.05, AdamW(1e-2, warm_up_steps=1, weight_decay=0.0)
    tuned, steps = [], []
    for number in (0, 1):
        copied, seed = copy.deepcopy(model).train(), derived_seed(1, "second language", number)
        trained = rule.build(Training(copied, MaskedObjective(), second, seed, 2, 8))
        curve = [(0, before)]
        with Stream(second, MaskedObjective(), 8, seed).batches(0, 2) as batches:
            for step in (1, 2):
                trained.step(next(batches), step)
                curve.append((step, float(kl_of(copied, second).mean())))
        steps.append(first_step_at(curve, target))
        tuned.append(copied)
    halfway = [average_of(model, each) for each in tuned]
    expected = {
        "second_steps": steps,
        "second_kl": [kl_of(each, second).mean() for each in tuned],
        "forgotten_kl": [kl_of(each, language).mean() for each in tuned],
        "averaged_kl": [kl_of(each, language).mean() for each in halfway],
        "averaged_second_kl": [kl_of(each, second).mean() for each in halfway],
        "merged_second_kl": kl_of(average_of(*tuned), second).tolist(),
    }
    quantity = SecondLanguageQuantity(20, 1, rule, steps=2, batch_size=8, every=1, target=target)
    weights = [weight.detach().clone() for weight in model.parameters()]
    records = records_of(quantity, model, language)
    assert all(float(each) < before for each in expected["second_kl"])  # the second language is learnt
    assert all(map(torch.equal, weights, model.parameters()))
    assert set(quantity.columns(records)) == set(quantity.column_names)
    assert [record.quantity for record in records] == list(expected)
    for record in records:
        estimate = sample_mean(torch.tensor(expected[record.quantity], dtype=torch.float64))
        found = (record.value, record.standard_error)
        assert found == pytest.approx((estimate.value, estimate.standard_error), rel=1e-3), record.quantity


@pytest.mark.parametrize(("target", "step"), [(1.2, 0), (1.0, 0), (0.5, 5), (0.25, 10), (0.2, 10)])
def test_the_first_step_at_a_target(target: float, step: float) -> None:
    """At the start, between two points, at one, and where it is not reached."""
    assert first_step_at([(0, 1.0), (10, 0.25)], target) == pytest.approx(step)


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


def test_the_sibling_of_an_hmm_of_few_states_differs_from_it_too() -> None:
    first = random_hmm(words=6, states=2, blocks=1, length=4, seed=0)
    assert not any(torch.equal(sibling(first, seed).transition, first.transition) for seed in range(20))
    with pytest.raises(BadInput, match="the roles of its 1 states does not change this hidden Markov model"):
        sibling(random_hmm(words=6, states=1, blocks=1, length=4, seed=0), 1)
