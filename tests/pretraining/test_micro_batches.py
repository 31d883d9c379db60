"""Batches passed in parts: the gradient is that of the whole batch, the memory that of one part."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from processes_together import in_processes
from rule_cases import RULES, tiny, trained
from runs import LANGUAGE, TaskedLanguage, assert_resumes_to_the_bit, small
from torch import nn

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, sentence_averaged_loss
from isoloss.objectives.masked import ManyMasksObjective
from isoloss.pretraining.adversarial import Adversarial
from isoloss.pretraining.other_optimisers import Sophia
from isoloss.pretraining.specification import Compute, settings_as_json
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import Training, UpdateRuleSettings

# Sentences with different numbers of predictions, in a batch that no part size divides.
MASKS, SENTENCES = ManyMasksObjective(share=0.4), 17


def training_of(model: nn.Module, micro_batch: int) -> Training:
    return Training(model, MASKS, TaskedLanguage(), 0, 2, SENTENCES, micro_batch=micro_batch)


def batch_of(step: int) -> Batch:
    return Stream(LANGUAGE, MASKS, SENTENCES, seed=0).batch(step - 1)


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
    weights, losses, _ = trained(RULES[rule], MASKS)
    weights_by_parts, by_parts, _ = trained(RULES[rule], MASKS, micro_batch=4)
    assert by_parts == pytest.approx(losses, rel=1e-11)
    torch.testing.assert_close(weights_by_parts, weights, rtol=1e-9, atol=1e-11)


def test_processes_pass_their_shares_in_parts(tmp_path: Path) -> None:
    weights, losses, _ = trained(RULES["SAM"], MASKS)
    for found in in_processes(2, lambda processes: trained(RULES["SAM"], MASKS, processes, 3), tmp_path):
        assert found[1] == pytest.approx(losses, rel=1e-11)
        torch.testing.assert_close(found[0], weights, rtol=1e-9, atol=1e-11)


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
