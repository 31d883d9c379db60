import itertools
from dataclasses import replace

import pytest
import torch

from isoloss.errors import BadInput
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import pcfg
from isoloss.languages.sentences import Sentences
from isoloss.measurements.entropy import language_entropy
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.models.transformers import GPT2Transformer, Shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.objectives.tokens import CLS, FIRST_WORD
from llama_transformer import LlamaTransformer
from thorough_cases import others_thorough
from tiny_models import far_from_the_start

OBJECTIVE = NextWordObjective()
GRAMMAR = """
S -> A B [0.6] | B [0.3] | A A B [0.1]
A -> 'a' [0.5] | 'b' [0.3] | 'c' [0.2]
B -> 'c' 'a' [0.7] | 'b' [0.3]
"""


@pytest.fixture
def language():
    return pcfg(parse_grammar(GRAMMAR))


@pytest.fixture(params=others_thorough([GPT2Transformer, LlamaTransformer]))
def model(request):
    model = request.param(Shape(8, 2, 2, 12)).build(3, 4, seed=0).double()
    return far_from_the_start(model).train()


def every_sentence(language):
    """All the language's sentences, and their probabilities."""
    tried = [list(words) for n in range(1, 5) for words in itertools.product(range(3), repeat=n)]
    probabilities = language.log_probability(Sentences.from_lists(tried)).exp()
    assert float(probabilities.sum()) == pytest.approx(1)
    possible = probabilities > 0
    kept = [words for words, there in zip(tried, possible.tolist(), strict=True) if there]
    return Sentences.from_lists(kept), probabilities[possible]


def log_probabilities_of(model, sentences):
    """The model's log-probability of each whole sentence with its end, one sentence at a time."""
    model.eval()
    found = []
    for row, length in zip(sentences.ids, sentences.lengths.tolist(), strict=True):
        tokens = [CLS, *(row[:length] + FIRST_WORD).tolist()]
        with torch.no_grad():
            log_p = model(input_ids=torch.tensor([tokens])).logits[0].log_softmax(1)
        found.append(sum(log_p[t, token] for t, token in enumerate([*tokens[1:], CLS])))
    return torch.stack(found)


@pytest.mark.parametrize("memory_bytes", [1, 1 << 28])
def test_kl_adds_up_to_that_of_whole_sentences(model, language, memory_bytes):
    """By the chain rule E_x Σ_t KL_t = Σ_x p(x) log p(x) / q(x), q the model's whole sentences."""
    sentences, probability = every_sentence(language)
    distributions = OBJECTIVE.log_probabilities(language, sentences)
    entropy = torch.zeros(len(sentences), dtype=torch.float64)
    evaluation = EvaluationSet(sentences, distributions, entropy, 0, OBJECTIVE)
    measured = exact_loss(model, OBJECTIVE, evaluation, memory_bytes=memory_bytes)
    assert model.training
    events = sentences.lengths + 1
    total = float((probability * measured.kl * events).sum())
    expected = float((probability * (probability.log() - log_probabilities_of(model, sentences))).sum())
    assert total == pytest.approx(expected, rel=1e-10)


@pytest.mark.thorough
def test_entropy_adds_up_to_that_of_whole_sentences_and_is_the_languages(language):
    _, probability = every_sentence(language)
    evaluation = EvaluationSet.draw(language, 4000, seed=2, objective=OBJECTIVE)
    summed = evaluation.entropy * (evaluation.sentences.lengths + 1)
    expected = -float((probability * probability.log()).sum())
    standard_error = float(summed.std()) / 4000**0.5
    assert abs(float(summed.mean()) - expected) < 4 * standard_error
    records = {record.quantity: record for record in evaluation.records()}
    assert set(records) == {"next_word_entropy_sentence_averaged", "next_word_entropy_token_averaged"}
    (whole,) = [r for r in language_entropy(language, 4000, seed=2) if r.quantity == "next_word_entropy"]
    averaged = records["next_word_entropy_sentence_averaged"]
    assert (averaged.value, averaged.standard_error) == pytest.approx((whole.value, whole.standard_error))


def test_both_averages_and_the_papers_error_bar_are_recorded(model, language):
    evaluation = EvaluationSet.draw(language, 50, seed=5, objective=OBJECTIVE)
    measured = exact_loss(model, OBJECTIVE, evaluation)
    records = {record.quantity: record for record in measured.records("step-9", {"step": 9})}
    assert set(records) == {
        "next_word_kl_sentence_averaged",
        "next_word_kl_token_averaged",
        "next_word_loss_sentence_averaged",
        "next_word_loss_token_averaged",
        "next_word_loss_subset_deviation",
    }
    loss = records["next_word_loss_sentence_averaged"]
    assert loss.value == pytest.approx(float((evaluation.entropy + measured.kl).mean()))
    events = evaluation.sentences.lengths + 1
    weighted = float((measured.kl * events).sum() / events.sum())
    assert records["next_word_kl_token_averaged"].value == pytest.approx(weighted)


def test_a_set_of_another_objective_is_refused(model, language):
    masked = EvaluationSet.draw(language, 5, seed=0)
    with pytest.raises(BadInput, match=r"distributions of Masked.*, but the objective is NextWord"):
        exact_loss(model, OBJECTIVE, masked)
    with pytest.raises(BadInput, match=r"distributions of NextWord.*, but the objective is Masked"):
        exact_loss(model, MaskedObjective(), EvaluationSet.draw(language, 5, seed=0, objective=OBJECTIVE))


@pytest.mark.parametrize("memory_bytes", [1, 1 << 28])
def test_scores_that_are_not_finite_are_named(model, language, memory_bytes):
    evaluation = EvaluationSet.draw(language, 20, seed=0, objective=OBJECTIVE)
    batch = OBJECTIVE.every_prediction(evaluation.sentences)
    row = 11
    own = batch.input_ids[row]

    class Diverged(NextWordObjective):
        def logits(self, model, batch):
            same = (batch.input_ids == own).all(1)[batch.rows] & (batch.positions == 1)
            return super().logits(model, batch).where(~same[:, None], torch.nan)

    first = int((batch.input_ids == own).all(1).nonzero()[0])
    with pytest.raises(BadInput, match=f"word 2 of sentence {first + 1} are not finite"):
        exact_loss(model, Diverged(), replace(evaluation, objective=Diverged()), memory_bytes=memory_bytes)
