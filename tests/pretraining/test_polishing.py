"""Polishing down to a divergence: that it stops there, stays there, and resumes there."""

import copy
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from isoloss.errors import BadInput
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.models.loading import load_masked_language_model
from isoloss.models.transformers import GPT2Transformer, PreLayerNormTransformer, laptop_shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.objectives.soft_labels import SoftLabels
from isoloss.pretraining import polishing
from isoloss.pretraining.descent import AdamW, scheduled_rate
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.polishing import Polished, PolishingRule, mean_divergence
from isoloss.pretraining.specification import PretrainingSpecification
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import Training
from isoloss.results.checkpoint import checkpoint_folders, read_checkpoint
from isoloss.seeds import derived_seed

LANGUAGE = pcfg(laptop_grammar(0))
SETTINGS = Polished(0.05, AdamW(5e-3, warm_up_steps=10, weight_decay=0.0), smoothing=0.5)


def training(objective: MaskedObjective | SoftLabels) -> Training:
    architecture = PreLayerNormTransformer(laptop_shape(16), dropout=0.0, attention="eager")
    model = architecture.build(len(LANGUAGE.vocabulary), LANGUAGE.maximum_length, seed=0)
    return Training(model, objective, LANGUAGE, 0, 400, 64)


def polished(rule: PolishingRule, steps: int) -> Iterator[int]:
    """The number of each step that the rule takes, right after it, until it has come to rest."""
    with Stream(LANGUAGE, SoftLabels(), 64, 0).batches(0, steps) as batches:
        for step, batch in enumerate(batches, start=1):
            rule.step(batch, step)
            yield step
            if rule.is_at_rest:
                return


def test_a_model_stands_still_once_it_has_come_to_the_divergence() -> None:
    of = training(SoftLabels())
    rule = SETTINGS.build(of)
    weights: list[list[torch.Tensor]] = []
    with Stream(LANGUAGE, SoftLabels(), 64, 0).batches(0, 400) as batches:
        for step in range(1, 401):
            loss = rule.step(next(batches), step)
            if rule.is_at_rest:
                weights.append([weight.detach().clone() for weight in of.model.parameters()])
            if len(weights) == 20:
                break
    assert len(weights) == 20
    assert all(map(torch.equal, weights[0], weights[-1]))
    evaluation = EvaluationSet.draw(LANGUAGE, 500, seed=1)
    kl = float(exact_loss(of.model, MaskedObjective(), evaluation).kl.mean())
    assert 0.025 < kl < 0.075
    assert rule.readings()["divergence"] <= 0.05
    assert float(loss) == pytest.approx(float(evaluation.entropy.mean()) + kl, rel=0.2)
    resumed = SETTINGS.build(of)
    resumed.load_state_dict(copy.deepcopy(rule.state_dict()))
    assert resumed.is_at_rest
    assert resumed.divergence == rule.divergence


def test_a_run_at_rest_takes_no_steps_and_leaves_the_same_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    architecture = PreLayerNormTransformer(laptop_shape(16), dropout=0.0, attention="eager")
    specification = PretrainingSpecification(
        architecture, SETTINGS, LANGUAGE.digest, 70, 64, 0, (10, 60, 65, 70), objective=SoftLabels()
    )
    model = architecture.build(
        len(LANGUAGE.vocabulary), LANGUAGE.maximum_length, derived_seed(0, "initialisation")
    )
    rule = SETTINGS.build(replace(training(SoftLabels()), model=model, steps=70))
    list(polished(rule, 70))

    drawn: list[int] = []
    block = Stream.block
    monkeypatch.setattr(
        Stream, "block", lambda stream, number: (drawn.append(number), block(stream, number))[1]
    )
    taken: list[int] = []
    pretrain(specification, LANGUAGE, tmp_path, at_step=lambda step, *_: taken.append(step))
    assert 10 < len(taken) < 60
    assert len(drawn) == -(-len(taken) // 128)
    kept = {each.step: each for each in map(read_checkpoint, checkpoint_folders(tmp_path))}
    assert kept[10].training_loss > kept[60].training_loss
    assert len({(kept[step].digest, kept[step].training_loss) for step in (60, 65, 70)}) == 1
    trained = load_masked_language_model(kept[70].folder)
    assert all(map(torch.equal, model.parameters(), trained.parameters()))

    shutil.rmtree(kept[70].folder)
    resumed = pretrain(specification, LANGUAGE, tmp_path, at_step=lambda step, *_: taken.append(step))
    assert resumed.resumed_from == 65
    assert (resumed.last.digest, resumed.last.training_loss) == (kept[70].digest, kept[70].training_loss)
    assert max(taken) < 60


def test_words_drawn_do_not_tell_the_divergence() -> None:
    rule = SETTINGS.build(training(MaskedObjective()))
    with (
        pytest.raises(BadInput, match="train on soft labels"),
        Stream(LANGUAGE, MaskedObjective(), 64, 0).batches(0, 1) as batches,
    ):
        rule.step(next(batches), 1)


@pytest.mark.parametrize(
    "changed",
    [
        {"divergence": 0.0},
        {"smoothing": 1.0},
        {"held_out": -1},
        {"asked_every": 0},
        {"cycles": 0},
        {"asked_below": 0.5},
    ],
)
def test_settings_that_polish_nothing_are_refused(changed: dict[str, float]) -> None:
    with pytest.raises(BadInput):
        replace(SETTINGS, **changed)  # type: ignore[arg-type]


def test_a_model_below_the_divergence_goes_on_for_the_least_number_of_steps() -> None:
    of = training(SoftLabels())
    rule = Polished(10.0, AdamW(5e-3, warm_up_steps=1, weight_decay=0.0), least_steps=3).build(of)
    moved = []
    with Stream(LANGUAGE, SoftLabels(), 64, 0).batches(0, 5) as batches:
        for step, batch in enumerate(batches, start=1):
            before = [weight.detach().clone() for weight in of.model.parameters()]
            rule.step(batch, step)
            moved.append(not all(map(torch.equal, before, of.model.parameters())))
    assert moved == [True, True, False, False, False]


@pytest.mark.thorough
def test_held_out_sentences_stop_the_descent_at_the_divergence_which_the_average_passes() -> None:
    """The average lags by its whole memory; between two looks at held-out sentences one goes back."""
    reached = []
    evaluation = EvaluationSet.draw(LANGUAGE, 2000, seed=1)
    for held_out, asked_every in ((0, 10), (1000, 10), (1000, 5)):
        of = training(SoftLabels())
        settings = Polished(0.05, SETTINGS.optimiser, 0.95, held_out=held_out, asked_every=asked_every)
        rule = settings.build(of)
        list(polished(rule, 400))
        assert rule.is_at_rest
        reached.append(float(exact_loss(of.model, MaskedObjective(), evaluation).kl.mean()))
    for found in reached[1:]:
        assert abs(found - 0.05) < abs(reached[0] - 0.05) / 2
        assert found == pytest.approx(0.05, rel=0.1)


def test_weights_to_go_back_to_are_on_the_models_device_after_a_resumption(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of = training(SoftLabels())
    rule = replace(SETTINGS, divergence=1e-3, held_out=64, asked_every=1, asked_below=1e6).build(of)
    list(polished(rule, 1))
    stored = copy.deepcopy(rule.state_dict())
    assert {weight.device.type for weight in stored["before"]} == {"cpu"}
    resumed = SETTINGS.build(training(SoftLabels()))
    monkeypatch.setattr(polishing, "device_of", lambda _: torch.device("meta"))
    resumed.load_state_dict(stored)
    assert {weight.device.type for weight in resumed.before} == {"meta"}
    assert len(resumed.before) == len(list(of.model.parameters()))


@pytest.mark.thorough
def test_a_model_whose_kl_falls_fast_stops_at_the_divergence_if_asked_sooner_or_if_it_goes_back() -> None:
    """Between two looks 20 steps apart KL falls from more than twice the divergence to less than it."""
    ends = []
    usual = Polished(0.1, SETTINGS.optimiser, held_out=1000, asked_every=20)
    for settings in (usual, replace(usual, asked_below=10.0), replace(usual, goes_back=True)):
        of = training(SoftLabels())
        rule = settings.build(of)
        list(polished(rule, 400))
        ends.append(mean_divergence(of, rule._held_out))
    assert ends[0] < 0.05
    assert ends[1:] == pytest.approx([0.1, 0.1], rel=0.05)


def test_a_model_goes_back_to_before_its_first_step() -> None:
    of = training(SoftLabels())
    first = [weight.detach().clone() for weight in of.model.parameters()]
    settings = replace(SETTINGS, held_out=64, asked_every=400, goes_back=True)
    rule = settings.build(of)
    list(polished(rule, 2))
    assert all(map(torch.equal, rule.before, first))


@pytest.mark.thorough
def test_every_cycle_warms_up_and_decays_and_a_late_model_arrives_in_another() -> None:
    optimiser = replace(SETTINGS.optimiser, decay="cosine")
    settings = Polished(0.03, optimiser, held_out=500, cycles=4)
    of = replace(training(SoftLabels()), steps=240)
    rule = settings.build(of)
    rates = [float(rule.descent.optimisers[0].param_groups[0]["lr"]) for _ in polished(rule, 240)][:-1]
    assert rule.is_at_rest
    assert len(rates) > 60
    assert rates[:60] == [scheduled_rate(5e-3, 10, 60, step, "cosine") for step in range(1, 61)]
    assert rates[60:120] == rates[: len(rates[60:120])]
    assert mean_divergence(of, rule._held_out) <= 0.03


def test_steps_that_the_cycles_do_not_divide_are_refused() -> None:
    with pytest.raises(BadInput, match="400 steps cannot be divided into 3"):
        replace(SETTINGS, cycles=3).build(training(SoftLabels()))


def test_the_mean_divergence_is_kl_by_its_definition() -> None:
    of, objective = training(SoftLabels()), SoftLabels()
    batch = objective.draw_from(
        LANGUAGE, LANGUAGE.sample(50, torch.Generator().manual_seed(3)), torch.Generator()
    )
    of.model.eval()
    with torch.no_grad():
        model = objective.logits(of.model, batch).double().softmax(-1)
    assert batch.soft_targets is not None
    expected = [
        sum(
            float(p) * (float(p.log()) - float(q.log()))
            for p, q in zip(of_law, of_model, strict=False)
            if p > 0
        )
        for of_law, of_model in zip(batch.soft_targets.double(), model, strict=True)
    ]
    assert mean_divergence(of, batch) == pytest.approx(sum(expected) / len(expected), rel=1e-9)


def test_the_mean_divergence_of_sentences_of_unequal_length_is_that_of_the_exact_loss() -> None:
    """Each sentence counts alike, however many words it has."""
    rules = "S -> A [0.5] | A B A B A B A B A B [0.5]\nA -> 'a' [0.9] | 'b' [0.1]\nB -> 'c' [0.3] | 'd' [0.7]"
    language, objective = pcfg(parse_grammar(rules)), NextWordObjective()
    model = GPT2Transformer(laptop_shape(16), dropout=0.0).build(4, language.maximum_length, seed=0)
    evaluation = EvaluationSet.draw(language, 200, 5, objective=objective)
    labels = SoftLabels(objective)
    batch = labels.draw_from(language, evaluation.sentences, torch.Generator())
    found = mean_divergence(Training(model, labels, language, 0, 100, 64), batch)
    assert found == pytest.approx(float(exact_loss(model, objective, evaluation).kl.mean()), rel=1e-5)
    assert len(batch.rows) > 2 * len(batch)
