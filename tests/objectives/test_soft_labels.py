"""Soft labels against the definition: the expectation over the exact distribution of what a word gives."""

from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isoloss.errors import BadInput
from isoloss.languages.dyck import dyck
from isoloss.languages.language import Language
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.languages.random_hmm import random_hmm
from isoloss.languages.sentences import Sentences
from isoloss.models.lookup_table import LookupTable
from isoloss.models.transformers import GPT2Transformer, PreLayerNormTransformer, laptop_shape
from isoloss.objectives.batch import sentence_averaged_loss, sentences_of
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.objectives.soft_labels import SoftLabels
from isoloss.objectives.tokens import CLS, FIRST_WORD
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import PretrainingSpecification
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import Training
from thorough_cases import others_thorough

LANGUAGES: dict[str, Language] = {
    "grammar": pcfg(laptop_grammar(3)),
    "hmm": random_hmm(words=5, states=4, blocks=1, length=6, seed=3),
    "dyck": dyck(6, 0.5),
}
OBJECTIVES = {"masked": MaskedObjective(), "next word": NextWordObjective()}


def model_of(language: Language, objective: MaskedObjective | NextWordObjective) -> torch.nn.Module:
    kind = PreLayerNormTransformer if isinstance(objective, MaskedObjective) else GPT2Transformer
    architecture = kind(laptop_shape(16), dropout=0.0, attention="eager")
    model = architecture.build(len(language.vocabulary), language.maximum_length, seed=1)
    return model.double()


@pytest.mark.parametrize("of", others_thorough(OBJECTIVES.values()), ids=OBJECTIVES)
@pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES)
def test_loss_and_gradient_are_expectations_over_the_word_drawn(
    language: Language, of: MaskedObjective | NextWordObjective
) -> None:
    generator = torch.Generator().manual_seed(0)
    sentences = language.sample(2, generator)
    batch = SoftLabels(of).draw_from(language, sentences, generator)
    assert batch.soft_targets is not None
    exact = replace(batch, soft_targets=batch.soft_targets.double())
    model = model_of(language, of)

    def loss_and_gradient(asked: object) -> torch.Tensor:
        model.zero_grad()
        loss = sentence_averaged_loss(of.logits(model, asked), asked)
        loss.backward()
        flat = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        return torch.cat([loss.detach()[None], *flat])

    # The mean over sentences is linear in each prediction's label, so one label can be replaced at a time.
    hard = replace(batch, soft_targets=None)
    base = loss_and_gradient(hard)
    expected = base.clone()
    for prediction in range(len(batch.rows)):
        for token in batch.soft_targets[prediction].nonzero().flatten().tolist():
            targets = hard.targets.clone()
            targets[prediction] = token
            change = loss_and_gradient(replace(hard, targets=targets)) - base
            expected += float(exact.soft_targets[prediction, token]) * change
    torch.testing.assert_close(loss_and_gradient(exact), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES)
def test_the_lookup_table_has_the_entropy_as_its_loss(language: Language) -> None:
    generator = torch.Generator().manual_seed(2)
    sentences = language.sample(50, generator)
    batch = SoftLabels().draw_from(language, sentences, generator)
    distribution = language.masked_log_probabilities(sentences)[batch.rows, batch.positions - 1]
    entropy = -(distribution.exp() * distribution.clamp(min=-1e9)).sum(1).mean()
    loss = sentence_averaged_loss(MaskedObjective().logits(LookupTable(language), batch), batch)
    assert float(loss) == pytest.approx(float(entropy), abs=1e-5)


@pytest.mark.parametrize("sentences_at_once", [1, 3])
def test_distributions_are_the_same_of_some_sentences_at_a_time(
    sentences_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    language = LANGUAGES["hmm"]
    sentences = language.sample(10, torch.Generator().manual_seed(5))
    generators = (torch.Generator().manual_seed(6) for _ in range(2))
    whole = SoftLabels().draw_from(language, sentences, next(generators))
    asked: list[int] = []

    def of_some(some: Sentences) -> torch.Tensor:
        asked.append(len(some))
        return type(language).masked_log_probabilities(language, some)

    patched = copy(language)
    object.__setattr__(patched, "masked_log_probabilities", of_some)
    bytes_a_sentence = 8 * sentences.ids.shape[1] * len(language.vocabulary)
    monkeypatch.setattr("isoloss.languages.language.SENTENCES_BYTES", sentences_at_once * bytes_a_sentence)
    parts = SoftLabels().draw_from(patched, sentences, next(generators))
    assert max(asked) == sentences_at_once
    assert sum(asked) == 10
    assert torch.allclose(parts.soft_targets, whole.soft_targets, rtol=0, atol=1e-7)


def test_the_end_of_a_sentence_has_its_probability() -> None:
    language = LANGUAGES["grammar"]
    generator = torch.Generator().manual_seed(0)
    sentences = language.sample(5, generator)
    batch = SoftLabels(NextWordObjective()).draw_from(language, sentences, generator)
    assert batch.soft_targets is not None
    last = torch.tensor([int((batch.rows == row).nonzero().max()) for row in range(5)])
    assert batch.soft_targets[last, CLS].tolist() == pytest.approx([1.0] * 5)
    assert batch.soft_targets[:, [0, 2]].abs().max() == 0
    assert batch.soft_targets.shape[1] == FIRST_WORD + len(language.vocabulary)


def test_parts_and_selections_keep_each_prediction_with_its_distribution() -> None:
    language = LANGUAGES["hmm"]
    batch = Stream(language, SoftLabels(), 8, seed=0).batch(0)
    assert batch.soft_targets is not None
    assert len(batch) == 8
    assert torch.equal(batch.part(2, 5).soft_targets, batch.soft_targets[2:5])
    chosen = sentences_of(batch, torch.tensor([1, 6]))
    assert torch.equal(chosen.soft_targets, batch.soft_targets[[1, 6]])
    hard = Stream(language, MaskedObjective(), 8, seed=0).batch(0)
    assert torch.equal(hard.input_ids, batch.input_ids)


@pytest.mark.parametrize("tokens", [None, 40])
def test_the_fused_step_has_autograds_gradient(tokens: int | None) -> None:
    language = LANGUAGES["grammar"]
    batch = Stream(language, SoftLabels(), 16, seed=4).batch(0)
    gradients = []
    for attention in ("eager", "sdpa"):
        architecture = PreLayerNormTransformer(laptop_shape(16), 0.0, attention, tokens=tokens)
        model = architecture.build(len(language.vocabulary), language.maximum_length, seed=1)
        training = Training(model, SoftLabels(), language, seed=0, steps=1, batch_size=16)
        loss = training.add_gradient(batch)
        assert (training._fused is None) == (attention == "sdpa")
        gradients.append(torch.cat([loss[None], *(p.grad.flatten() for p in model.parameters())]))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


def test_a_run_is_another_than_with_words(tmp_path: Path) -> None:
    language = LANGUAGES["dyck"]
    words, soft = (
        PretrainingSpecification(
            PreLayerNormTransformer(laptop_shape(16), 0.0, "eager"),
            AdamW(warm_up_steps=2),
            language.digest,
            steps=4,
            batch_size=16,
            seed=0,
            checkpoint_steps=(4,),
            objective=objective,
        )
        for objective in (MaskedObjective(), SoftLabels())
    )
    assert words.digest != soft.digest
    assert pretrain(soft, language, tmp_path).last.step == 4


def test_text_whose_distribution_nobody_knows_is_refused() -> None:
    with pytest.raises(BadInput, match="has no exact distribution to train on"):
        SoftLabels().draw_from(object(), LANGUAGES["hmm"].sample(1, torch.Generator()), torch.Generator())
