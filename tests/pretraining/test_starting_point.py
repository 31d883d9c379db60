"""A run from a checkpoint: its weights, a fresh rule, and the refusals."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from markov_language import MarkovLanguage
from runs import LANGUAGE, assert_resumes_to_the_bit, small

from isoloss.errors import BadInput, IsolossError
from isoloss.models.loading import load_masked_language_model
from isoloss.models.transformers import PostLayerNormTransformer, PreLayerNormTransformer, Shape
from isoloss.objectives.batch import sentence_averaged_loss
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.descent import SGD
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import PretrainingSpecification
from isoloss.pretraining.stream import Stream
from isoloss.results.checkpoint import Checkpoint, read_checkpoint


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return pretrain(small(steps=20), LANGUAGE, tmp_path_factory.mktemp("start")).last


def continued(start: Checkpoint, **changes: object) -> PretrainingSpecification:
    changes = {
        "update_rule": SGD(learning_rate=0.1, warm_up_share=0.0),
        "architecture": PreLayerNormTransformer(Shape(8, 2, 1, 16), dropout=0.0),
        "start_from": start.digest,
        "seed": 1,
        "checkpoint_steps": (1, 5, 10),
        **changes,
    }
    return replace(small(steps=10), **changes)


@pytest.mark.thorough
def test_the_first_step_is_taken_from_the_checkpoints_weights(start: Checkpoint, tmp_path: Path) -> None:
    pretrain(continued(start), LANGUAGE, tmp_path, start_from=start.folder)
    model = load_masked_language_model(start.folder)
    batch = Stream(LANGUAGE, MaskedObjective(), 16, seed=1).batch(0)
    loss = sentence_averaged_loss(MaskedObjective().logits(model, batch), batch)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    first = tmp_path / "steps" / "000001"
    moved = load_masked_language_model(first)
    assert read_checkpoint(first).training_loss == pytest.approx(loss.item(), rel=1e-6)
    for after, before, gradient in zip(moved.parameters(), model.parameters(), gradients, strict=True):
        torch.testing.assert_close(after, before - 0.1 * gradient)


@pytest.mark.thorough
def test_it_is_resumed_from_its_own_checkpoints(start: Checkpoint, tmp_path: Path) -> None:
    assert_resumes_to_the_bit(continued(start), LANGUAGE, tmp_path, 10, start_from=start.folder)


def test_the_starting_weights_are_part_of_what_a_run_is(start: Checkpoint) -> None:
    assert continued(start).digest != replace(continued(start), start_from=None).digest


def test_what_does_not_go_together_is_refused_and_leaves_nothing(start: Checkpoint, tmp_path: Path) -> None:
    other_language = MarkovLanguage(stay=0.5)
    wider = PreLayerNormTransformer(Shape(16, 2, 1, 16))
    more_heads = PreLayerNormTransformer(Shape(8, 4, 1, 16))
    post = PostLayerNormTransformer(Shape(8, 2, 1, 16))
    for specification, language, folder, words in (
        (continued(start), LANGUAGE, None, "hand over the checkpoint's folder"),
        (continued(start, start_from=None), LANGUAGE, start.folder, "from fresh weights"),
        (continued(start, start_from="0" * 64), LANGUAGE, start.folder, "starts from 000000000000"),
        (
            continued(start, language_digest=other_language.digest),
            other_language,
            start.folder,
            "its language_digest is",
        ),
        (continued(start, architecture=wider), LANGUAGE, start.folder, "shape.width is 8, not 16"),
        (continued(start, architecture=more_heads), LANGUAGE, start.folder, "shape.heads is 2, not 4"),
        (continued(start, architecture=post), LANGUAGE, start.folder, "architecture.is is"),
        (continued(start, seed=0), LANGUAGE, start.folder, "give it another seed"),
    ):
        with pytest.raises(BadInput, match=words):
            pretrain(specification, language, tmp_path, start_from=folder)
    with pytest.raises(IsolossError, match=r"checkpoint\.json cannot be read"):
        pretrain(continued(start), LANGUAGE, tmp_path, start_from=tmp_path)
    assert not (tmp_path / "specification.json").exists()


def test_sentences_of_any_run_before_are_refused(start: Checkpoint, tmp_path: Path) -> None:
    second = pretrain(continued(start), LANGUAGE, tmp_path / "second", start_from=start.folder).last
    third = continued(second, seed=2)
    last = pretrain(third, LANGUAGE, tmp_path / "third", start_from=second.folder).last
    for before, seeds in ((second, (0, 1)), (last, (0, 1, 2))):
        for seed in seeds:
            again = continued(before, seed=seed)
            with pytest.raises(BadInput, match=f"were trained with seed {seed} on the sentences"):
                pretrain(again, LANGUAGE, tmp_path / "again", start_from=before.folder)
