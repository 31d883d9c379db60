"""Flatness during training, in the trainer of transformers and in our own loop."""

import importlib.util
from types import SimpleNamespace

import pytest
import torch
from transformers import PrinterCallback, TrainerCallback

from enumerated_language import EnumeratedLanguage
from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.errors import BadInput
from isoloss.measurements.fixed_sentences import FixedSentences
from isoloss.measurements.flatness_callback import FlatnessCallback
from isoloss.models.loading import load_masked_language_model
from isoloss.models.transformers import PreLayerNormTransformer, Shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.pretrained import PretrainedMasked
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import PretrainingSpecification
from isoloss.results.checkpoint import checkpoint_folders

LANGUAGE, OBJECTIVE = EnumeratedLanguage(), MaskedObjective()
SET = FixedSentences.draw(LANGUAGE, OBJECTIVE, 20, seed=3)


def specification(steps):
    architecture, rule = PreLayerNormTransformer(Shape(8, 2, 1, 8)), AdamW(warm_up_steps=2)
    checkpoints = tuple(range(2, steps + 1, 2))
    return PretrainingSpecification(architecture, rule, LANGUAGE.digest, steps, 8, 0, checkpoints)


@pytest.mark.thorough
def test_measuring_at_checkpoints_changes_nothing_of_the_run(tmp_path):
    traces = []

    def measure(checkpoint, model):
        traces.append(fisher_trace(model, SET.batches, OBJECTIVE, seed=3).estimate.value)

    with_it = pretrain(specification(6), LANGUAGE, tmp_path / "a", at_checkpoint=measure)
    without = pretrain(specification(6), LANGUAGE, tmp_path / "b")
    assert with_it.last.digest == without.last.digest
    for found, folder in zip(traces, checkpoint_folders(tmp_path / "a"), strict=True):
        stored = fisher_trace(load_masked_language_model(folder), SET.batches, OBJECTIVE, seed=3)
        assert found == pytest.approx(stored.estimate.value, rel=1e-6)


def test_a_crash_before_the_measurement_leaves_no_hole(tmp_path):
    class Killed(Exception):
        pass

    def kill(checkpoint, model):
        if checkpoint.step == 4:
            raise Killed

    with pytest.raises(Killed):
        pretrain(specification(6), LANGUAGE, tmp_path / "run", at_checkpoint=kill)
    told = []

    def tell(checkpoint, model):
        told.append(checkpoint.step)

    report = pretrain(specification(6), LANGUAGE, tmp_path / "run", at_checkpoint=tell)
    assert (report.resumed_from, told) == (4, [4, 6])


def state(step=0, first=True):
    return SimpleNamespace(is_world_process_zero=first, global_step=step)


def tiny():
    return PreLayerNormTransformer(Shape(8, 2, 1, 8)).build(3, 4, seed=0)


def test_it_measures_every_second_evaluation_or_step():
    logged, model = [], tiny()
    callback = FlatnessCallback(logged.append, SET.batches, OBJECTIVE, every=2, seed=5)
    for _ in range(4):
        callback.on_evaluate(None, state(), None, model=model)
        callback.on_step_end(None, state(), None, model=model)
    estimate = fisher_trace(model, SET.batches, OBJECTIVE, seed=5).estimate
    expected = {"fisher_trace": estimate.value, "fisher_trace_standard_error": estimate.standard_error}
    assert logged == [expected, expected]
    logged.clear()
    callback = FlatnessCallback(logged.append, SET.batches, OBJECTIVE, every=3, at="step", seed=5)
    for step in range(1, 8):
        callback.on_evaluate(None, state(step), None, model=model)
        callback.on_step_end(None, state(step), None, model=model)
    assert logged == [expected, expected]


def test_only_the_first_process_measures():
    logged = []
    callback = FlatnessCallback(logged.append, SET.batches, OBJECTIVE)
    callback.on_evaluate(None, state(first=False), None, model=tiny())
    assert logged == []


def test_never_is_refused():
    with pytest.raises(BadInput, match="at least 1, not 0"):
        FlatnessCallback(print, SET.batches, OBJECTIVE, every=0)


class Tracker(TrainerCallback):
    """A callback that receives everything that is logged, as a tracker such as TensorBoard's does."""

    def __init__(self):
        self.heard = []

    def on_log(self, args, state, control, logs=None, **now):
        self.heard.append((state.global_step, dict(logs)))


@pytest.mark.skipif(not importlib.util.find_spec("accelerate"), reason="Trainer needs accelerate")
def test_a_trainer_logs_it_to_its_trackers(tmp_path):
    from transformers import Trainer, TrainingArguments

    (batch,) = SET.batches
    ids = batch.input_ids
    labels = torch.full_like(ids, -100)
    labels[batch.rows, batch.positions] = batch.targets
    data = [
        {"input_ids": row, "attention_mask": present, "labels": label}
        for row, present, label in zip(ids, batch.attention_mask, labels, strict=True)
    ]
    model, objective = tiny(), PretrainedMasked()
    arguments = TrainingArguments(
        output_dir=str(tmp_path), max_steps=4, eval_strategy="steps", eval_steps=1, use_cpu=True,
        report_to=[], disable_tqdm=True, save_strategy="no", per_device_train_batch_size=4, seed=0,
    )  # fmt: skip
    tracker = Tracker()
    trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data, callbacks=[tracker])
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(FlatnessCallback(trainer.log, SET.batches, objective, every=2))
    trainer.train()
    traces = [(step, logs) for step, logs in tracker.heard if "fisher_trace" in logs]
    assert [step for step, _ in traces] == [2, 4]
    last = fisher_trace(trainer.model, SET.batches, objective).estimate
    assert traces[-1][1]["fisher_trace"] == pytest.approx(last.value, rel=1e-5)
    assert traces[-1][1]["fisher_trace_standard_error"] == pytest.approx(last.standard_error, rel=1e-5)
