import math
from dataclasses import replace

import pytest
import torch

from enumerated_language import EnumeratedLanguage
from isoloss.curvature.loss import BatchLoss
from isoloss.errors import BadInput
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.models.lstm import LSTM
from isoloss.models.transformers import PostLayerNormTransformer, Shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.soft_labels import with_exact_labels
from isoloss.objectives.tokens import CLS, FIRST_WORD, MASK
from isoloss.results.estimate import deviation_over_subsets, paired_difference
from tiny_models import ARCHITECTURES

OBJECTIVE = MaskedObjective()


def one_by_one(model, language, evaluation):
    """(entropy, KL) of every word, each from a sentence of its own without padding, by plain sums."""
    model.eval()
    found = []
    for words, length in zip(
        evaluation.sentences.ids.tolist(), evaluation.sentences.lengths.tolist(), strict=True
    ):
        of_sentence = []
        for t in range(length):
            joint = [language.distribution[(*words[:t], w, *words[t + 1 : length])] for w in range(3)]
            distribution = [value / sum(joint) for value in joint]
            tokens = [CLS] + [word + FIRST_WORD for word in words[:length]]
            tokens[t + 1] = MASK
            with torch.no_grad():
                scores = model(input_ids=torch.tensor([tokens])).logits[0, t + 1].tolist()
            normaliser = math.log(sum(math.exp(score) for score in scores))
            entropy = -sum(p * math.log(p) for p in distribution if p)
            kl = sum(
                p * (math.log(p) - scores[w + FIRST_WORD] + normaliser)
                for w, p in enumerate(distribution)
                if p
            )
            of_sentence.append((entropy, kl))
        found.append(of_sentence)
    return found


def value(records, quantity):
    (record,) = [record for record in records if record.quantity == quantity]
    return record.value


def mean(numbers):
    numbers = list(numbers)
    return sum(numbers) / len(numbers)


@pytest.mark.parametrize("memory_bytes", [1, 1 << 28])
def test_agrees_with_plain_sums_word_by_word(model, language, memory_bytes):
    evaluation = EvaluationSet.draw(language, 15, seed=3)
    words = one_by_one(model, language, evaluation)
    measured = exact_loss(model.train(), OBJECTIVE, evaluation, memory_bytes=memory_bytes)
    assert model.training
    kl = [mean(kl for _, kl in sentence) for sentence in words]
    assert measured.kl.tolist() == pytest.approx(kl, rel=1e-9)
    records = evaluation.records() + measured.records("step-1", {"step": 1})
    entropies = [mean(entropy for entropy, _ in sentence) for sentence in words]
    assert value(records, "masked_entropy_sentence_averaged") == pytest.approx(mean(entropies), rel=1e-9)
    assert value(records, "masked_kl_sentence_averaged") == pytest.approx(mean(kl), rel=1e-9)
    assert value(records, "masked_loss_sentence_averaged") == pytest.approx(
        mean(kl) + mean(entropies), rel=1e-9
    )
    everything = [word for sentence in words for word in sentence]
    assert value(records, "masked_loss_token_averaged") == pytest.approx(
        mean(entropy + kl for entropy, kl in everything), rel=1e-9
    )
    assert value(records, "masked_kl_token_averaged") != pytest.approx(mean(kl), rel=1e-3)


def test_equal_lengths_have_one_average_and_the_papers_error_bar(model):
    evaluation = EvaluationSet.draw(EnumeratedLanguage(lengths=(4,)), 50, seed=5)
    measured = exact_loss(model, OBJECTIVE, evaluation)
    records = {record.quantity: record for record in measured.records("step-9", {"step": 9})}
    assert set(records) == {
        "masked_kl_sentence_averaged",
        "masked_loss_sentence_averaged",
        "masked_loss_subset_deviation",
    }
    subsets = measured.loss.view(5, 10).mean(1)
    assert records["masked_loss_subset_deviation"].value == pytest.approx(float(subsets.std()))
    loss = records["masked_loss_sentence_averaged"]
    assert (loss.unit, loss.n, loss.seed) == ("nats", 50, 5)
    assert (loss.checkpoint, loss.settings) == ("step-9", {"step": 9})
    assert loss.standard_error == pytest.approx(float(measured.loss.std()) / 50**0.5)


def test_the_entropy_cancels_from_the_difference_of_two_models(model, language):
    evaluation = EvaluationSet.draw(language, 200, seed=6)
    before = exact_loss(model, OBJECTIVE, evaluation)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 0.98
    after = exact_loss(model, OBJECTIVE, evaluation)
    by_kl, by_loss = paired_difference(after.kl, before.kl), paired_difference(after.loss, before.loss)
    assert by_kl.value == pytest.approx(by_loss.value, rel=1e-9)
    assert by_kl.standard_error == pytest.approx(by_loss.standard_error, rel=1e-9)
    assert by_kl.standard_error < 0.3 * deviation_over_subsets(before.loss).value


def test_one_seed_draws_one_set(language):
    first, again, other = (EvaluationSet.draw(language, 60, seed) for seed in (1, 1, 2))
    assert torch.equal(first.sentences.ids, again.sentences.ids)
    assert torch.equal(first.log_probabilities, again.log_probabilities)
    assert not torch.equal(first.sentences.ids, other.sentences.ids)


def test_a_model_of_another_vocabulary_is_refused(language):
    evaluation = EvaluationSet.draw(language, 5, seed=0)
    foreign = PostLayerNormTransformer(Shape(8, 2, 1, 8)).build(words=7, maximum_length=4, seed=0)
    with pytest.raises(BadInput, match="scores 10 tokens, but a language of 3 words needs 6"):
        exact_loss(foreign, OBJECTIVE, evaluation)


@pytest.mark.parametrize(
    "architecture", [*ARCHITECTURES, lambda shape, tokens=None: LSTM(8, 1, tokens=tokens)]
)
def test_tokens_of_no_word_take_their_probability_and_nothing_else(architecture, language):
    """Oracle: a model without them, with the same weights, whose loss is lower by -log(1 - their share)."""
    small, large = (architecture(Shape(8, 2, 2, 12), tokens=n).build(3, 4, 0).double() for n in (None, 9))
    own, kept = small.state_dict(), large.state_dict()
    large.load_state_dict(
        {
            name: torch.cat([own[name], torch.zeros_like(value[len(own[name]) :])])
            if value.shape != own[name].shape
            else own[name]
            for name, value in kept.items()
        }
    )
    evaluation = EvaluationSet.draw(language, 9, seed=0)
    batch, lengths = OBJECTIVE.every_prediction(evaluation.sentences), evaluation.sentences.lengths.tolist()
    with torch.no_grad():
        few, many = (OBJECTIVE.logits(model.eval(), batch).logsumexp(1) for model in (small, large))
    found, without = (exact_loss(model, OBJECTIVE, evaluation) for model in (large, small))
    dearer = [part.mean().item() for part in (many - few).split(lengths)]
    assert min(dearer) > 0.1
    assert (found.kl - without.kl).tolist() == pytest.approx(dearer, abs=1e-12)
    # Measures under the distribution of the labels take it over all tokens.
    losses = BatchLoss(large, OBJECTIVE, with_exact_labels(batch, language, OBJECTIVE)).values()
    assert [part.mean().item() for part in losses.split(lengths)] == pytest.approx(found.loss.tolist())


@pytest.mark.parametrize("memory_bytes", [1, 1 << 28])
def test_scores_that_are_not_finite_are_named(model, language, memory_bytes):
    evaluation = EvaluationSet.draw(language, 20, seed=0)
    places = evaluation.sentences.real.nonzero().tolist()
    hidden = OBJECTIVE.mask_every_position(evaluation.sentences).input_ids

    class Diverged(MaskedObjective):
        def logits(self, model, batch):
            same = (batch.input_ids == hidden[17]).all(1)
            return super().logits(model, batch).where(~same[:, None], math.nan)

    row, position = places[int((hidden == hidden[17]).all(1).nonzero()[0])]
    with pytest.raises(BadInput, match=f"word {position + 1} of sentence {row + 1} are not finite"):
        exact_loss(model, Diverged(), replace(evaluation, objective=Diverged()), memory_bytes=memory_bytes)


def test_what_is_no_distribution_is_refused(language, monkeypatch):
    """Its entropy and KL would be numbers like any others."""
    of = type(language).masked_log_probabilities
    monkeypatch.setattr(type(language), "masked_log_probabilities", lambda *given: of(*given) + 0.3)
    with pytest.raises(BadInput, match=r"a distribution of \w+ sums to 1.34986, not to 1; mend its log-prob"):
        EvaluationSet.draw(language, 8, seed=0)


def test_too_few_sentences_are_refused(language):
    with pytest.raises(BadInput, match="4 sentences are too few"):
        EvaluationSet.draw(language, 4, seed=0)
