"""Batches passed in parts: the gradient is that of the whole batch, the memory that of one part."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from processes_together import in_processes
from rule_cases import RULES, tiny, weights_of
from runs import LANGUAGE, TaskedLanguage, assert_resumes_to_the_bit, small
from torch import nn

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, sentence_averaged_loss
from isoloss.objectives.masked import ManyMasksObjective
from isoloss.pretraining.adversarial import Adversarial
from isoloss.pretraining.other_optimisers import Sophia
from isoloss.pretraining.processes import ALONE, Processes
from isoloss.pretraining.specification import Compute, settings_as_json
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import Training, UpdateRuleSettings

# Sentences with different numbers of predictions, in a batch that no part size divides.
MASKS, SENTENCES, STEPS = ManyMasksObjective(share=0.4), 17, 2


def training_of(model: nn.Module, micro_batch: int | None, processes: Processes = ALONE) -> Training:
    return Training(model, MASKS, TaskedLanguage(), 0, STEPS, SENTENCES, processes, micro_batch)


def batch_of(step: int) -> Batch:
    return Stream(LANGUAGE, MASKS, SENTENCES, seed=0).batch(step - 1)


def trained(rule: UpdateRuleSettings, micro_batch: int | None, processes: Processes = ALONE) -> Any:
    """Losses and weights after a few steps in float64."""
    model = tiny()
    built = rule.build(training_of(model, micro_batch, processes))
    losses = [built.step(batch_of(step), step).item() for step in range(1, STEPS + 1)]
    return losses, weights_of(model)


@pytest.mark.parametrize("micro_batch", [1, 5, 16, 17, 100])
def test_the_gradient_is_that_of_the_whole_batch(micro_batch: int) -> None:
    model, batch = tiny(), batch_of(1)
    whole = sentence_averaged_loss(MASKS.logits(model, batch), batch)
    expected = torch.autograd.grad(whole, list(model.parameters()), materialize_grads=True)
    loss = training_of(model, micro_batch).add_gradient(batch)
    assert loss.item() == pytest.approx(whole.item(), rel=1e-14)
    for weight, wanted in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(weight.grad, wanted, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("rule", ["AdamW", "SAM", "flatness-regularised", "sharpened"])
def test_rules_train_as_on_whole_batches(rule: str) -> None:
    losses, weights = trained(RULES[rule], None)
    by_parts, weights_by_parts = trained(RULES[rule], 4)
    assert by_parts == pytest.approx(losses, rel=1e-11)
    torch.testing.assert_close(weights_by_parts, weights, rtol=1e-9, atol=1e-11)


def test_processes_pass_their_shares_in_parts(tmp_path: Path) -> None:
    losses, weights = trained(RULES["SAM"], None)
    for found in in_processes(2, lambda processes: trained(RULES["SAM"], 3, processes), tmp_path):
        assert found[0] == pytest.approx(losses, rel=1e-11)
        torch.testing.assert_close(found[1], weights, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("rule", "name"), [(Sophia(warm_up_steps=0), "Sophia"), (Adversarial((2.0, 4.0)), "the adversary")]
)
def test_rules_that_need_the_whole_batch_say_so(rule: UpdateRuleSettings, name: str) -> None:
    with pytest.raises(BadInput, match=f"{name} needs the whole batch at once and cannot train by micro-b"):
        rule.build(training_of(tiny(), 4))


@dataclass(frozen=True)
class Counting(ManyMasksObjective):
    """Records the number of sentences in each forward pass."""

    seen: tuple[list[int], ...] = ([],)

    def logits(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        self.seen[0].append(len(batch))
        return super().logits(model, batch)


def test_no_pass_is_larger_than_a_part() -> None:
    objective = Counting(share=0.4)
    replace(training_of(tiny(), 7), objective=objective).add_gradient(batch_of(1))
    assert objective.seen[0] == [7, 7, 3]


def test_a_run_by_parts_is_named_for_it_and_resumes_to_the_bit(tmp_path: Path) -> None:
    by_parts = small(steps=12, checkpoint_steps=(4, 8, 12), compute=Compute(micro_batch=5))
    assert by_parts.digest != replace(by_parts, compute=Compute()).digest
    assert settings_as_json(by_parts)["compute"]["micro_batch"] == 5
    assert "micro_batch" not in settings_as_json(small(compute=Compute("bfloat16")))["compute"]
    assert_resumes_to_the_bit(by_parts, LANGUAGE, tmp_path, 12)


def test_a_part_has_at_least_one_sentence() -> None:
    with pytest.raises(BadInput, match="at least one sentence, not 0"):
        Compute(micro_batch=0)
