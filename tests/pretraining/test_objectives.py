"""The objective is part of the specification, and any objective can be trained on."""

import math

import pytest
import torch
from runs import LANGUAGE, assert_resumes_to_the_bit, small

from isoloss.errors import BadInput
from isoloss.languages.language import SentenceSource
from isoloss.models.transformers import GPT2Transformer, Shape
from isoloss.objectives.masked import BertReplacement, ManyMasksObjective, MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import claim
from isoloss.pretraining.stream import Stream

OBJECTIVES = (
    MaskedObjective(),
    NextWordObjective(),
    ManyMasksObjective(share=0.4),
    ManyMasksObjective(share=0.4, replacement=BertReplacement(2)),
)


def test_specifications_of_different_objectives_differ(tmp_path):
    runs = [small(objective=objective) for objective in OBJECTIVES]
    assert len({run.digest for run in runs}) == len(OBJECTIVES)
    assert small().digest == runs[0].digest
    claim(tmp_path, runs[0])
    with pytest.raises(BadInput, match=r"objective\.is is MaskedObjective, not NextWordObjective"):
        claim(tmp_path, runs[1])


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_batches_are_parts_of_what_the_objective_makes_of_a_block(objective):
    stream = Stream(LANGUAGE, objective, batch_size=1000, seed=7)
    block = stream.block(1)
    first = stream.batches_per_block
    with stream.batches(first, 2 * first) as batches:
        parts = list(batches)
    assert len(parts) == first == 8
    for number, part in enumerate(parts):
        assert len(part) == 1000
        kept = (block.rows >= 1000 * number) & (block.rows < 1000 * (number + 1))
        assert torch.equal(part.rows, block.rows[kept] - 1000 * number)
        assert torch.equal(part.positions, block.positions[kept])
        assert torch.equal(part.targets, block.targets[kept])
        assert torch.equal(part.input_ids, block.input_ids[1000 * number : 1000 * (number + 1)])
        # If a word is left as it is, the model sees its target.
        assert (part.attention_mask[part.rows, part.positions]).all()
    assert sum(len(part.rows) for part in parts) == len(block.rows)


@pytest.mark.slow
def test_next_word_training_reaches_the_languages_entropy(tmp_path):
    assert isinstance(LANGUAGE, SentenceSource)
    run = small(
        steps=300,
        architecture=GPT2Transformer(Shape(16, 2, 1, 32)),
        objective=NextWordObjective(),
        update_rule=AdamW(learning_rate=1e-2, warm_up_steps=20),
        batch_size=128,
        checkpoint_steps=(250, 300),
    )
    report = pretrain(run, LANGUAGE, tmp_path)
    # Five words or, equally often, six: the first word and an end after the fifth are a toss, the rest is
    # `stay`.
    toss, stays = math.log(2), -sum(p * math.log(p) for p in (LANGUAGE.stay, 1 - LANGUAGE.stay))
    entropy = ((2 * toss + 4 * stays) / 6 + (2 * toss + 5 * stays) / 7) / 2
    # The training loss is a mean over 50 batches of 128 sentences, with dropout.
    assert report.last.training_loss == pytest.approx(entropy, abs=0.03)


@pytest.mark.thorough
def test_a_causal_run_goes_on_to_the_same_bits(tmp_path):
    run = small(architecture=GPT2Transformer(Shape(8, 2, 1, 16)), objective=NextWordObjective())
    assert_resumes_to_the_bit(run, LANGUAGE, tmp_path, 20)
