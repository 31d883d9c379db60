"""Mixed precision and compilation: they name a run, stay close to float32, and affect only training."""

import shutil
from dataclasses import replace
from pathlib import Path

import jaxtyping
import pytest
import torch
from runs import LANGUAGE, assert_resumes_to_the_bit, small
from torch import nn

from isoloss.models.transformers import PostLayerNormTransformer, laptop_shape
from isoloss.objectives.batch import sentence_averaged_loss
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.specification import Compute, settings_as_json
from isoloss.pretraining.stream import Stream
from isoloss.results.checkpoint import Checkpoint
from tiny_models import far_from_the_start

MASKED = MaskedObjective()
BATCHES = [Stream(LANGUAGE, MASKED, 16, seed=0).batch(number) for number in range(2)]
BFLOAT16 = Compute("bfloat16")


def model_without_dropout() -> nn.Module:
    model = PostLayerNormTransformer(laptop_shape(16), dropout=0.0).build(2, LANGUAGE.maximum_length, seed=1)
    return far_from_the_start(model, by=0.2).train()


def gradient_of(compute: Compute, model: nn.Module, number: int) -> tuple[float, torch.Tensor]:
    """Loss and whole gradient of a batch."""
    model.zero_grad()
    batch = BATCHES[number]
    loss = sentence_averaged_loss(compute.of(MASKED, model).logits(model, batch), batch)
    loss.backward()
    gradients = [weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]
    return loss.item(), torch.cat(gradients)


def test_the_default_leaves_objective_and_digest_as_they_were() -> None:
    assert Compute().of(MASKED, model_without_dropout()) is MASKED
    # Of the run from before there was such a setting.
    assert "compute" not in settings_as_json(small())
    assert small().digest == "b9f2bee5438cc14ea7c0b75f1ee7adf7476f5c83701c9828eee840a499c54b16"
    digests = {small(compute=compute).digest for compute in (Compute(), BFLOAT16, Compute(compiled=True))}
    assert len(digests) == 3
    assert settings_as_json(small(compute=BFLOAT16))["compute"] == {
        "is": "Compute",
        "precision": "bfloat16",
        "compiled": False,
    }


def test_bfloat16_is_near_float32_but_is_not_it() -> None:
    model = model_without_dropout()
    loss, gradient = gradient_of(Compute(), model, 0)
    rounded_loss, rounded_gradient = gradient_of(BFLOAT16, model, 0)
    assert rounded_loss != loss
    assert rounded_loss == pytest.approx(loss, rel=2e-2)  # 8 bits of mantissa, a few roundings in a row
    assert rounded_gradient.dtype == torch.float32
    assert torch.cosine_similarity(rounded_gradient, gradient, dim=0) > 0.99
    assert BFLOAT16.of(MASKED, model).logits(model, BATCHES[0]).dtype == torch.float32


@pytest.mark.thorough
def test_a_run_in_bfloat16_learns_keeps_float32_weights_and_resumes_to_the_bit(tmp_path: Path) -> None:
    seen: list[Checkpoint] = []

    def note(checkpoint: Checkpoint, model: nn.Module) -> None:
        seen.append(checkpoint)
        assert {weight.dtype for weight in model.parameters()} == {torch.float32}

    specification = replace(small(steps=20), compute=BFLOAT16)
    assert_resumes_to_the_bit(specification, LANGUAGE, tmp_path, 20, at_checkpoint=note)
    assert seen[-1].training_loss < seen[0].training_loss


@pytest.mark.parametrize(
    "backend",
    [
        "eager",
        pytest.param(
            "inductor",
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a compiler"),
            ],
        ),
    ],
)
def test_a_traced_forward_pass_gives_each_batch_its_own_loss(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch for batch the results of plain float32, with the model left unchanged."""
    model, compute = model_without_dropout(), Compute(compiled=True)
    expected = [gradient_of(Compute(), model, number) for number in (0, 1)]
    plain = torch.compile
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # a type checker cannot be traced
    monkeypatch.setattr(torch, "compile", lambda function: plain(function, backend=backend))
    objective = compute.of(MASKED, model)
    for number in (0, 1, 0):  # also those of a second batch: nothing of the first is compiled in
        model.zero_grad()
        batch = BATCHES[number]
        loss = sentence_averaged_loss(objective.logits(model, batch), batch)
        loss.backward()
        gradient = torch.cat([w.grad.flatten() for w in model.parameters() if w.grad is not None])
        assert loss.item() == pytest.approx(expected[number][0], rel=1e-5)
        torch.testing.assert_close(gradient, expected[number][1], rtol=1e-3, atol=1e-6)
    assert "forward" not in vars(model.base_model)
