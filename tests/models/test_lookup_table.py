import pytest
import torch

from block_hmm import block_hmm
from enumerated_language import EnumeratedLanguage
from isoloss.errors import BadInput
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.languages.random_hmm import random_hmm
from isoloss.languages.sentences import Sentences
from isoloss.languages.task import task_splits
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.measurements.linear_probe import LabelledFeatures, ProbeSettings
from isoloss.measurements.task_sentences import sentence_features
from isoloss.models.lookup_table import LookupTable
from isoloss.objectives.masked import ManyMasksObjective, MaskedObjective

LANGUAGES = [EnumeratedLanguage, block_hmm, lambda: pcfg(laptop_grammar(0))]


@pytest.mark.parametrize("build", LANGUAGES, ids=["ragged", "hmm", "pcfg"])
@pytest.mark.parametrize("memory_bytes", [1, 1 << 26])
def test_its_loss_is_the_entropy(build, memory_bytes):
    language = build()
    evaluation = EvaluationSet.draw(language, 20, seed=0)
    found = exact_loss(LookupTable(language), MaskedObjective(), evaluation, memory_bytes=memory_bytes)
    assert float(found.kl.abs().max()) < 1e-14
    torch.testing.assert_close(found.loss, evaluation.entropy, rtol=0, atol=1e-14)
    assert float(evaluation.entropy.mean()) > 0.1


@pytest.mark.thorough
def test_its_features_are_the_distributions_and_zero_after_the_end():
    language = EnumeratedLanguage()
    sentences = language.sample(600, torch.Generator().manual_seed(0))
    features = sentence_features(LookupTable(language), sentences).view(600, 4, 3)
    distributions = language.masked_log_probabilities(sentences).exp().float()
    assert torch.equal(features, distributions)
    torch.testing.assert_close(features.sum(2), sentences.real.float())


def test_its_answer_does_not_depend_on_the_masked_word():
    language = EnumeratedLanguage()
    table, objective = LookupTable(language), MaskedObjective()
    sentences = Sentences.from_lists([[0, 1, 2], [0, 2, 2]])
    batch = objective.mask_every_position(sentences)
    answers = table.logits(batch)
    assert torch.equal(answers[1], answers[4])
    assert not torch.equal(answers[0], answers[3])
    assert answers.shape == (6, 6)
    assert bool((answers[:, :3] == -1e9).all())


def test_it_is_probed_like_a_model():
    language = random_hmm(words=12, states=6, blocks=2, length=4, seed=0)
    splits = task_splits(language.tasks()[1], 300, 10, 200, seed=0)
    table = LookupTable(language)
    train, test = (sentence_features(table, part.sentences) for part in (splits.train, splits.test))
    settings = ProbeSettings(epochs=20, learning_rate=1e-2)
    accuracy = LabelledFeatures(train, splits.train.labels, test, splits.test.labels, 6).probed(settings)
    most_common = float((splits.test.labels == splits.test.labels.mode().values).double().mean())
    assert accuracy.estimate.value > most_common + 0.1


def test_several_masks_in_a_sentence_are_refused():
    sentences = Sentences.from_lists([[0, 1, 2, 0]])
    batch = ManyMasksObjective(share=0.5).draw(sentences, torch.Generator().manual_seed(0))
    with pytest.raises(BadInput, match="one word a sentence"):
        LookupTable(EnumeratedLanguage()).logits(batch)


def test_its_answers_do_not_depend_on_how_many_sentences_are_worked_out_at_once(monkeypatch):
    """Three, of five different ones: two are left for the last time."""
    language, objective = block_hmm(), MaskedObjective()
    sentences = language.sample(5, torch.Generator().manual_seed(0))
    assert len(sentences.ids.unique(dim=0)) == 5
    batch = objective.mask_every_position(sentences)
    whole = LookupTable(language).logits(batch)
    monkeypatch.setattr("isoloss.models.lookup_table.AT_ONCE", 3)
    torch.testing.assert_close(LookupTable(language).logits(batch), whole, rtol=1e-12, atol=1e-12)
