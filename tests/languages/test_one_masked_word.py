import pytest
import torch
from language_cases import LANGUAGES
from scipy.stats import chi2

from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.models.transformers import PreLayerNormTransformer, Shape
from isoloss.objectives.masked import MaskedObjective, OneMaskedWord

CASES = [
    pytest.param(name, marks=[pytest.mark.thorough] if name == "causal LM" else []) for name in LANGUAGES
]


@pytest.mark.parametrize("name", CASES)
def test_it_picks_out_one_of_all_the_masked_predictions_of_every_language(name):
    language, objective = LANGUAGES[name].make(), OneMaskedWord(seed=3)
    sentences = language.sample(30, torch.Generator().manual_seed(0))
    every = MaskedObjective()
    place_among_all = sentences.lengths.cumsum(0) - sentences.lengths + objective.places(sentences)
    of_all, own = every.every_prediction(sentences), objective.every_prediction(sentences)
    assert torch.equal(own.input_ids, of_all.input_ids[place_among_all])
    assert torch.equal(own.positions, of_all.positions[place_among_all])
    assert torch.equal(own.targets, of_all.targets[place_among_all])
    distributions = every.log_probabilities(language, sentences)[place_among_all]
    torch.testing.assert_close(
        objective.log_probabilities(language, sentences).exp(), distributions.exp(), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("name", CASES)
def test_the_exact_loss_is_that_of_all_words_within_its_error_bar(name):
    language = LANGUAGES[name].make()
    model = PreLayerNormTransformer(Shape(8, 2, 1, 8)).build(
        len(language.vocabulary), language.maximum_length, seed=0
    )
    of_one, of_all = OneMaskedWord(seed=1), MaskedObjective()
    # A causal model rereads every sentence with every word in each position.
    n = 60 if name == "causal LM" else 300
    every = EvaluationSet.draw(language, n, seed=0)
    one = EvaluationSet.draw(language, n, seed=0, objective=of_one)
    assert torch.equal(one.sentences.ids, every.sentences.ids)
    for values, reference in (
        (exact_loss(model, of_one, one).loss, exact_loss(model, of_all, every).loss),
        (one.entropy, every.entropy),
    ):
        difference = values - reference
        assert float(difference.mean().abs()) <= 4 * float(difference.std()) / n**0.5 + 1e-12


def test_places_are_even_and_a_function_of_the_sentences_number_and_the_seed():
    generator = torch.Generator().manual_seed(0)
    sentences = Sentences(torch.randint(50, (6000, 6), generator=generator), torch.full((6000,), 6))
    places = OneMaskedWord(seed=5).places(sentences)
    statistic = float(((torch.bincount(places, minlength=6) - 1000.0) ** 2 / 1000).sum())
    assert statistic < chi2.ppf(0.999, 5)
    assert torch.equal(OneMaskedWord(seed=5).places(sentences[100:200], 100), places[100:200])
    assert not torch.equal(OneMaskedWord(seed=6).places(sentences), places)
    padded = Sentences(torch.nn.functional.pad(sentences.ids, (0, 2), value=-1), sentences.lengths)
    assert torch.equal(OneMaskedWord(seed=5).places(padded), places)
    assert OneMaskedWord().places(Sentences.from_lists([[1], [2, 3]]))[0] == 0


def test_sets_and_objectives_must_be_of_one_seed():
    language = LANGUAGES["Dyck"].make()
    model = PreLayerNormTransformer(Shape(8, 2, 1, 8)).build(2, 6, seed=0)
    drawn = EvaluationSet.draw(language, 5, seed=0, objective=OneMaskedWord(seed=1))
    with pytest.raises(
        BadInput, match=r"distributions of OneMaskedWord\(seed=1\), but the objective is .*seed=2"
    ):
        exact_loss(model, OneMaskedWord(seed=2), drawn)
    with pytest.raises(BadInput, match="the seed must be from 0"):
        OneMaskedWord(seed=-1)
