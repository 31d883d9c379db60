"""What every update rule guarantees: resuming, seeds, learning, and the refusal of impossible settings."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from runs import TaskedLanguage, assert_resumes_to_the_bit, small

from isoloss.errors import BadInput
from isoloss.models.transformers import PostLayerNormTransformer, Shape
from isoloss.objectives.batch import Batch, PretrainingObjective, sentence_averaged_loss
from isoloss.objectives.masked import ManyMasksObjective, MaskedObjective
from isoloss.pretraining.adversarial import Adversarial
from isoloss.pretraining.descent import SGD, AdamW
from isoloss.pretraining.flatness_regularised import SAM, FlatnessRegularised, Sharpened
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.other_optimisers import SOAP, Lion, Muon, Sophia
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import Training, UpdateRule, UpdateRuleSettings
from isoloss.seeds import caller_randomness_kept, seed_dropout
from tiny_models import far_from_the_start

LANGUAGE = TaskedLanguage(stay=0.95, shortest=3, maximum_length=4)
MASKED = MaskedObjective()
CPU = torch.device("cpu")
QUICK = AdamW(learning_rate=1e-2, warm_up_steps=3)
STEPS, BATCH_SIZE = 60, 32
RULES: dict[str, UpdateRuleSettings] = {
    "AdamW": QUICK,
    "SGD": SGD(learning_rate=0.1),
    "SGD with momentum": SGD(learning_rate=0.02, momentum=0.9),
    "SAM": SAM(optimiser=QUICK),
    "SAM over SGD": SAM(optimiser=SGD(learning_rate=0.2)),
    "flatness-regularised": FlatnessRegularised(optimiser=QUICK),
    "sharpened": Sharpened((0.0, 9.0), optimiser=QUICK),
    "adversarial": Adversarial((0.3, 0.5), strength=0.1, examples=8, smoothing=0.5, optimiser=QUICK),
    "Muon": Muon(learning_rate=1e-2, rest=QUICK),
    "Lion": Lion(learning_rate=5e-3, warm_up_steps=3),
    "SOAP": SOAP(learning_rate=1e-2, warm_up_steps=3, basis_steps=3),
    "Sophia": Sophia(learning_rate=1e-2, warm_up_steps=3, clipping=0.01, estimate_steps=3),
}
OVER_ALL_RULES = pytest.mark.parametrize("settings", RULES.values(), ids=RULES.keys())


def built(
    settings: UpdateRuleSettings, dropout: float = 0.1, objective: PretrainingObjective = MASKED
) -> tuple[torch.nn.Module, UpdateRule]:
    model = PostLayerNormTransformer(Shape(16, 2, 1, 32), dropout).build(2, LANGUAGE.maximum_length, seed=1)
    far_from_the_start(model, by=0.2)  # SGD would be slow near it
    training = Training(model.train(), objective, LANGUAGE, 0, STEPS, BATCH_SIZE)
    return model, settings.build(training)


def batch_of(step: int, objective: PretrainingObjective = MASKED) -> Batch:
    return Stream(LANGUAGE, objective, BATCH_SIZE, seed=0).batch(step - 1)


def train(rule: UpdateRule, first: int, last: int, objective: PretrainingObjective = MASKED) -> torch.Tensor:
    with caller_randomness_kept(CPU):
        losses = []
        for step in range(first, last + 1):
            seed_dropout(0, step, CPU)
            losses.append(rule.step(batch_of(step, objective), step))
        return torch.stack(losses)


@OVER_ALL_RULES
class TestContract:
    def test_it_is_a_rule_and_its_loss_is_detached(self, settings: UpdateRuleSettings) -> None:
        model, rule = built(settings, dropout=0.0)
        assert isinstance(settings, UpdateRuleSettings)
        assert isinstance(rule, UpdateRule)
        batch = batch_of(1)
        with torch.no_grad():
            before = [
                sentence_averaged_loss(MASKED.logits(model, part), part).item()
                for part in (batch, batch.part(0, BATCH_SIZE // 2))
            ]
        loss = rule.step(batch, 1)
        assert not loss.requires_grad
        # Of the batch or of the half that the rule begins with; at weights a little displaced, maybe.
        assert min(abs(loss.item() - value) for value in before) < 0.02

    @pytest.mark.slow
    def test_it_learns_well_below_the_uniform_with_dropout(self, settings: UpdateRuleSettings) -> None:
        _, rule = built(settings)
        losses = train(rule, 1, STEPS)
        assert losses[-10:].mean() < 0.45 < math.log(2)  # two words, equally likely

    def test_it_takes_several_predictions_a_sentence(self, settings: UpdateRuleSettings) -> None:
        objective = ManyMasksObjective(share=0.4)
        model, rule = built(settings, objective=objective)
        assert train(rule, 1, 2, objective).isfinite().all()
        assert all(bool(weight.isfinite().all()) for weight in model.parameters())


STEP_AS_OTHERS = ("SAM", "SAM over SGD", "flatness-regularised", "Lion", "SOAP")


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(rule, id=name, marks=[pytest.mark.thorough] * (name in STEP_AS_OTHERS))
        for name, rule in RULES.items()
    ],
)
def test_an_interrupted_run_ends_with_the_undisturbed_bits(
    settings: UpdateRuleSettings, tmp_path: Path
) -> None:
    specification = replace(small(steps=5), update_rule=settings, language_digest=LANGUAGE.digest)
    specification = replace(specification, checkpoint_steps=(2, 5))
    assert_resumes_to_the_bit(specification, LANGUAGE, tmp_path, 5)


IMPOSSIBLE = [
    *[
        partial(rule, **{name: value})
        for rule in (AdamW, Lion, SOAP, Sophia)
        for name, values in {
            "learning_rate": (0.0, math.nan),
            "warm_up_steps": (-1,),
            "first_beta": (1.0,),
            "second_beta": (-0.1,),
            "weight_decay": (-1.0, math.inf),
        }.items()
        for value in values
    ],
    partial(AdamW, epsilon=0.0),
    partial(SGD, learning_rate=-1.0),
    partial(SGD, warm_up_share=1.5),
    partial(SGD, momentum=1.0),
    partial(SAM, rho=0.0),
    partial(SAM, rho=math.inf),
    partial(FlatnessRegularised, noise=0.0),
    partial(FlatnessRegularised, noise=math.nan),
    partial(Adversarial, (0.6, 0.5)),
    partial(Adversarial, (0.5, math.inf)),
    partial(Adversarial, (0.5, 0.6), strength=math.inf),
    partial(Adversarial, (0.5, 0.6), strength=0.0),
    partial(Adversarial, (0.5, 0.6), examples=1),
    partial(Adversarial, (0.5, 0.6), ridge=0.0),
    partial(Adversarial, (0.5, 0.6), smoothing=1.0),
    partial(Muon, learning_rate=0.0),
    partial(Muon, momentum=1.0),
    partial(Muon, weight_decay=-1.0),
    partial(SOAP, basis_steps=0),
    partial(Sophia, clipping=0.0),
    partial(Sophia, estimate_steps=0),
]


@pytest.mark.parametrize(
    "settings",
    IMPOSSIBLE,
    ids=[f"{wrong.func.__name__} {wrong.args} {wrong.keywords}" for wrong in IMPOSSIBLE],
)
def test_impossible_settings_are_refused(settings: partial[UpdateRuleSettings]) -> None:
    with pytest.raises(BadInput, match=r"must|needs"):
        settings()


@pytest.mark.parametrize("settings", [s for s in RULES.values() if "SGD" not in repr(s)], ids=repr)
def test_a_run_shorter_than_its_warm_up_is_refused_and_leaves_nothing(
    settings: UpdateRuleSettings, tmp_path: Path
) -> None:
    specification = replace(
        small(), steps=2, checkpoint_steps=(2,), update_rule=settings, language_digest=LANGUAGE.digest
    )
    with pytest.raises(BadInput, match="warm-up of 3 steps is longer than the run of 2"):
        pretrain(specification, LANGUAGE, tmp_path)
    assert not (tmp_path / "specification.json").exists()


def test_sam_refuses_batches_of_one(tmp_path: Path) -> None:
    specification = replace(small(), update_rule=RULES["SAM"], language_digest=LANGUAGE.digest, batch_size=1)
    with pytest.raises(BadInput, match="batches of at least 2"):
        pretrain(specification, LANGUAGE, tmp_path)
