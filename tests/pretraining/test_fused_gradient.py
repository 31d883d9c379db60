"""Where rules take the fused gradient, and that runs which take it are like all others."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from runs import LANGUAGE, assert_resumes_to_the_bit, small

from isoloss.models.fused_training import FusedTransformer
from isoloss.models.transformers import PostLayerNormTransformer, PreLayerNormTransformer, laptop_shape
from isoloss.objectives.batch import sentence_averaged_loss
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.tokens import PAD
from isoloss.pretraining.descent import SGD, AdamW
from isoloss.pretraining.flatness_regularised import FlatnessRegularised
from isoloss.pretraining.specification import Bfloat16Forward, Compute
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import Training

MASKED = MaskedObjective()
BATCH = Stream(LANGUAGE, MASKED, 16, seed=0).batch(0)
FUSED = PreLayerNormTransformer(laptop_shape(16), dropout=0.0, attention="eager")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of sentences whose scores were computed by a `FusedTransformer`."""
    seen: list[int] = []
    fused = FusedTransformer.scores

    def scores(self, input_ids, attention_mask, positions):
        seen.append(len(input_ids))
        return fused(self, input_ids, attention_mask, positions)

    monkeypatch.setattr(FusedTransformer, "scores", scores)
    return seen


def training(architecture=FUSED, objective=MASKED, micro_batch=None) -> Training:
    model = architecture.build(len(LANGUAGE.vocabulary), LANGUAGE.maximum_length, seed=1).double().train()
    return Training(model, objective, LANGUAGE, 0, 10, 16, micro_batch=micro_batch)


def gradient(own: Training) -> torch.Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in own.model.parameters()])


@pytest.mark.parametrize(("micro_batch", "parts"), [(None, [16]), (5, [5, 5, 5, 1])])
def test_the_gradient_of_a_batch_is_autograds(asked, micro_batch, parts) -> None:
    own, plain = training(micro_batch=micro_batch), training()
    loss = own.add_gradient(BATCH)
    assert asked == parts
    expected = sentence_averaged_loss(MASKED.logits(plain.model, BATCH), BATCH)
    expected.backward()
    assert float(loss) == pytest.approx(expected.item(), rel=1e-12)
    torch.testing.assert_close(gradient(own), gradient(plain), rtol=1e-9, atol=1e-12)


def test_positions_skip_a_padding_token_that_counts_as_a_word() -> None:
    own, plain = training(), training()
    ids = BATCH.input_ids.clone()
    ids[:, 0] = PAD
    batch = replace(BATCH, input_ids=ids, attention_mask=torch.ones_like(BATCH.attention_mask))
    own.add_gradient(batch)
    sentence_averaged_loss(MASKED.logits(plain.model, batch), batch).backward()
    torch.testing.assert_close(gradient(own), gradient(plain), rtol=1e-9, atol=1e-12)


def test_a_loss_that_a_rule_differentiates_itself_is_left_to_autograd(asked) -> None:
    own = training()
    weights = list(own.model.parameters())
    first = torch.autograd.grad(own.loss(BATCH), weights, create_graph=True)
    second = torch.autograd.grad(sum(each.square().sum() for each in first), weights, materialize_grads=True)
    assert all(bool(each.isfinite().all()) for each in second)
    assert asked == []


@pytest.mark.parametrize(
    "own",
    [
        lambda: training(PostLayerNormTransformer(laptop_shape(16), dropout=0.0, attention="eager")),
        lambda: training(objective=Bfloat16Forward(MASKED)),
    ],
    ids=["another layout", "bfloat16"],
)
def test_elsewhere_the_objective_gives_the_scores(asked, own) -> None:
    own().add_gradient(BATCH)
    assert asked == []


def test_several_predictions_a_sentence_and_autocast_are_left_to_the_objective(asked) -> None:
    own, one = training(), BATCH.part(0, 1)
    twice = replace(
        one, rows=one.rows.repeat(2), positions=torch.tensor([1, 2]), targets=torch.tensor([3, 3])
    )
    own.add_gradient(twice)
    own.model.float()
    with torch.autocast("cpu", torch.bfloat16):
        own.add_gradient(BATCH)
    assert asked == []
    own.add_gradient(BATCH)
    assert asked == [16]


@pytest.mark.parametrize(
    "rule",
    [
        SGD(0.1),
        pytest.param(AdamW(warm_up_steps=2), marks=pytest.mark.thorough),
        pytest.param(FlatnessRegularised(optimiser=AdamW(warm_up_steps=2)), marks=pytest.mark.thorough),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_an_interrupted_run_ends_with_the_same_bits(asked, tmp_path: Path, rule) -> None:
    specification = small(architecture=FUSED, update_rule=rule, steps=12, checkpoint_steps=(5, 12))
    assert_resumes_to_the_bit(specification, LANGUAGE, tmp_path, 12)
    assert asked


def test_it_is_chosen_by_the_gradient_and_not_by_the_objective() -> None:
    assert Compute().of(MASKED, training().model) is MASKED
