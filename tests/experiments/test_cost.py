"""The cost of runs: operations against closed forms, bytes against real files, rates against a clock."""

import os
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedModel
from whole_step import whole_step

from isoloss.errors import BadInput
from isoloss.experiments import cost as cost_module
from isoloss.experiments.cost import (
    COPIES_WITH_TRAINING_STATE,
    Device,
    hours,
    measured_throughput,
    run_cost,
    this_machine,
)
from isoloss.experiments.languages import ReadyLanguage
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.step_cost import step_cost
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.models.lstm import LSTM
from isoloss.models.transformers import (
    Architecture,
    GPT2Transformer,
    PostLayerNormTransformer,
    PreLayerNormTransformer,
    laptop_shape,
    parameter_count,
)
from isoloss.objectives.batch import Batch, PretrainingObjective
from isoloss.objectives.masked import ManyMasksObjective, MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.pretraining.adversarial import Adversarial
from isoloss.pretraining.descent import SGD, AdamW
from isoloss.pretraining.flatness_regularised import SAM
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.other_optimisers import SOAP, Muon, Sophia
from isoloss.pretraining.specification import Compute, PretrainingSpecification
from isoloss.pretraining.update_rule import UpdateRuleSettings
from isoloss.results.checkpoint import TRAINING_STATE_FILE, WEIGHTS_FILE, checkpoint_folders
from llama_transformer import LlamaTransformer
from norm_experiments import RUN
from planned_suite import planned_suite

MASKED, NEXT = MaskedObjective(), NextWordObjective()
N, WORDS, LENGTH = 4, 12, 8
TOKENS, VOCABULARY = LENGTH + 1, WORDS + 3
SHAPE = laptop_shape(32)
DEEP = replace(SHAPE, layers=3)
ADAMW = AdamW(warm_up_steps=0)
LANGUAGE = pcfg(laptop_grammar(5))
RATE = cache(this_machine)


def a_transformers_layers(inner_matrices: int) -> float:
    """Forward operations of the layers per sentence: four square matrices, the inner ones, and attention."""
    d = SHAPE.width
    weights = SHAPE.layers * (4 * d**2 + inner_matrices * d * SHAPE.inner_width)
    return 2 * weights * TOKENS + SHAPE.layers * 4 * TOKENS**2 * d


@pytest.mark.parametrize(
    ("model", "rule", "objective", "micro_batch"),
    [
        (PreLayerNormTransformer(DEEP), ADAMW, MASKED, 2),
        pytest.param(
            *(PreLayerNormTransformer(DEEP), SGD(momentum=0.9), ManyMasksObjective(copies=2), None),
            marks=pytest.mark.slow,
        ),
        pytest.param(PostLayerNormTransformer(DEEP), Muon(), MASKED, None, marks=pytest.mark.slow),
        pytest.param(
            *(GPT2Transformer(DEEP), AdamW(3e-4, weight_decay=0.0), NEXT, None), marks=pytest.mark.slow
        ),
        (LSTM(16, 3), SGD(), MASKED, None),
    ],
)
def test_a_step_of_few_layers_tells_that_of_all_layers_and_of_any_batch(
    model: Architecture, rule: UpdateRuleSettings, objective: PretrainingObjective, micro_batch: int | None
) -> None:
    every_layer = whole_step(model, rule, objective, 6, WORDS, LENGTH, micro_batch)
    assert step_cost(model, rule, objective, 6, WORDS, LENGTH, micro_batch) == every_layer


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["smoke", "laptop", "gpu", "night", "paper"])
def test_every_planned_step_is_counted_as_a_whole_one(scale: str) -> None:
    steps = {
        (
            *(run.architecture, run.update_rule, run.objective, run.batch_size),
            *(run.language.words, run.language.maximum_length, run.compute.micro_batch),
        )
        for experiment in planned_suite(scale)
        for run in experiment.runs
    }
    assert len(steps) > 20
    for step in steps:
        assert step_cost(*step) == whole_step(*step), step


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", [PreLayerNormTransformer, PostLayerNormTransformer])
def test_a_masked_transformers_operations_are_the_closed_form(kind: type, attention: str) -> None:
    """Of the last block, all words have keys and values, and the masked one everything, and scores."""
    cost = step_cost(kind(SHAPE, attention=attention), ADAMW, MASKED, N, WORDS, LENGTH)
    d = SHAPE.width
    rest = 4 * d**2 + 4 * d * SHAPE.inner_width + 4 * TOKENS * d
    everywhere = SHAPE.layers * 4 * d**2 + (SHAPE.layers - 1) * rest
    assert cost.operations == 3 * N * (everywhere * TOKENS + rest + 2 * (d**2 + d * VOCABULARY))


@pytest.mark.parametrize(
    ("architecture", "inner_matrices"), [(GPT2Transformer(SHAPE), 2), (LlamaTransformer(SHAPE), 3)]
)
def test_a_causal_models_scores_are_of_every_word(architecture: Architecture, inner_matrices: int) -> None:
    cost = step_cost(architecture, ADAMW, NEXT, N, WORDS, LENGTH)
    scores = 2 * TOKENS * SHAPE.width * VOCABULARY
    assert cost.operations == 3 * N * (a_transformers_layers(inner_matrices) + scores)


def test_an_lstms_operations_are_four_gates_of_two_matrices_in_each_direction() -> None:
    width, layers = 16, 3
    cost = step_cost(LSTM(width, layers), ADAMW, MASKED, N, WORDS, LENGTH)
    gates = 4 * (width // 2) * (width + width // 2)
    assert cost.operations == 3 * N * (2 * TOKENS * layers * 2 * gates + 2 * width * VOCABULARY)


def test_an_lstm_stores_its_gates_and_cells() -> None:
    small, large = (step_cost(LSTM(16, 3), ADAMW, MASKED, n, WORDS, LENGTH) for n in (N, 2 * N))
    counted = large.activation_bytes - small.activation_bytes
    ids = torch.zeros(N, TOKENS, dtype=torch.int64)
    model, stored = LSTM(16, 3).build(WORDS, LENGTH, 0), {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        stored[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids)
    weights = {weight.untyped_storage()._cdata for weight in model.parameters()}
    kept = sum(tensor.nbytes for storage, tensor in stored.items() if storage not in weights)
    assert 3 * 2 * 5 * 8 * 4 * N * TOKENS < counted < kept


@pytest.mark.parametrize("tokens", [1009, 1013, 1009 * 1013])
def test_a_number_of_tokens_that_a_counted_step_has_too_changes_nothing_else(tokens: int) -> None:
    def operations(words: int) -> float:
        return step_cost(PreLayerNormTransformer(SHAPE), SOAP(), MASKED, N, words, LENGTH).operations

    special = VOCABULARY - WORDS
    less, there, more = (operations(tokens - special + further) for further in (-1, 0, 1))
    assert less < there < more
    assert 2 * there == pytest.approx(less + more, rel=1e-6)


@dataclass(frozen=True)
class OfMyOwn:
    """An architecture unknown to the package."""

    inner: LSTM

    def build(self, words: int, maximum_length: int, seed: int) -> PreTrainedModel:
        return self.inner.build(words, maximum_length, seed)


def test_an_lstm_costs_as_much_under_another_name() -> None:
    lstm = LSTM(width=32, layers=2, dropout=0.0)
    assert step_cost(OfMyOwn(lstm), ADAMW, MASKED, N, WORDS, LENGTH) == step_cost(
        lstm, ADAMW, MASKED, N, WORDS, LENGTH
    )


@pytest.mark.parametrize(
    "rule",
    [
        ADAMW,
        SGD(warm_up_share=0.0, momentum=0.9),
        Muon(rest=ADAMW),
        SOAP(warm_up_steps=0),
        Sophia(warm_up_steps=0),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_bytes_on_disk_are_those_of_a_real_run(rule: UpdateRuleSettings, tmp_path: Path) -> None:
    run = planned(update_rule=rule)
    pretrain(run.specification(LANGUAGE, tmp_path), LANGUAGE, tmp_path)
    weights = [load_file(folder / WEIGHTS_FILE) for folder in checkpoint_folders(tmp_path)]
    states = [torch.load(path) for path in tmp_path.glob(f"steps/*/{TRAINING_STATE_FILE}")]
    assert len(states) == COPIES_WITH_TRAINING_STATE
    cost = run_cost(run)
    assert bytes_of(states[0]) == cost.step.state_bytes
    assert bytes_of([weights, states]) == cost.disk_bytes
    assert cost.step.parameters == parameter_count(run.architecture, 8, 8)


def test_a_run_that_keeps_an_average_has_its_weights_on_disk_twice(tmp_path: Path) -> None:
    run = planned(averaging_horizon=2)
    pretrain(run.specification(LANGUAGE, tmp_path), LANGUAGE, tmp_path)
    weights = [load_file(path) for path in tmp_path.glob(f"steps/**/{WEIGHTS_FILE}")]
    states = [torch.load(path) for path in tmp_path.glob(f"steps/*/{TRAINING_STATE_FILE}")]
    assert bytes_of([weights, states]) == run_cost(run).disk_bytes


def bytes_of(nested: Any) -> int:
    if isinstance(nested, torch.Tensor):
        return nested.nbytes
    inner = nested.values() if isinstance(nested, dict) else nested if isinstance(nested, list) else ()
    return sum(bytes_of(value) for value in inner)


def test_a_rule_that_chooses_the_gradient_costs_its_optimisers_step() -> None:
    plain = step_cost(PreLayerNormTransformer(SHAPE), ADAMW, MASKED, N, WORDS, LENGTH)
    for rule in (SAM(optimiser=ADAMW), Adversarial((0.1, 0.2), examples=8, optimiser=ADAMW)):
        assert step_cost(PreLayerNormTransformer(SHAPE), rule, MASKED, N, WORDS, LENGTH) == plain


def planned(**changes: object) -> PlannedRun:
    plan = {"language": ReadyLanguage(LANGUAGE), "update_rule": ADAMW, "batch_size": 8}
    return replace(RUN, **(plan | {"steps": 3, "checkpoint_steps": (1, 2, 3), "saturated_from": 1} | changes))


def test_a_runs_cost_is_that_of_its_steps() -> None:
    cost = run_cost(planned())
    assert cost.operations == 3 * cost.step.operations
    assert hours(cost.operations, Device("", 1.0), share=0.5) == pytest.approx(cost.operations * 2 / 3600)
    one_checkpoint = run_cost(planned(checkpoint_steps=(3,)))
    assert one_checkpoint.disk_bytes == 4 * cost.step.parameters + cost.step.state_bytes


def test_what_is_kept_grows_with_the_batch_and_memory_counts_weights_and_gradients() -> None:
    of_four, of_eight = (
        step_cost(PreLayerNormTransformer(SHAPE), ADAMW, MASKED, n, WORDS, LENGTH) for n in (4, 8)
    )
    assert of_eight.activation_bytes == pytest.approx(2 * of_four.activation_bytes, rel=0.01)
    assert of_eight.state_bytes == of_four.state_bytes
    assert of_four.memory_bytes == 8 * of_four.parameters + of_four.state_bytes + of_four.activation_bytes


def test_what_is_kept_is_what_a_real_step_keeps() -> None:
    """In plain attention, whose matrices are kept, as they are counted."""
    architecture = PreLayerNormTransformer(SHAPE, attention="eager")
    counted = step_cost(architecture, ADAMW, MASKED, N, 8, 8).activation_bytes
    model = architecture.build(8, 8, seed=900).train()
    own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    sentences = LANGUAGE.sample(N, torch.Generator().manual_seed(900))
    batch = MASKED.draw(sentences, torch.Generator().manual_seed(900))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = torch.nn.functional.cross_entropy(MASKED.logits(model, batch), batch.targets)
    really = sum(storage.nbytes() for pointer, storage in kept.items() if pointer not in own)
    assert loss.isfinite()
    assert counted == pytest.approx(really, rel=0.02)


def test_micro_batches_keep_what_one_of_them_does_and_compute_what_the_batch_takes() -> None:
    whole, by_two = (run_cost(planned(compute=Compute(micro_batch=n))).step for n in (None, 2))
    of_two = run_cost(planned(batch_size=2)).step
    assert by_two == replace(whole, activation_bytes=of_two.activation_bytes)
    assert 3.5 < whole.activation_bytes / by_two.activation_bytes < 4.5
    assert run_cost(planned(compute=Compute(micro_batch=64))).step == whole


def specification(**changes: object) -> PretrainingSpecification:
    whole = planned().specification(LANGUAGE, Path())
    return replace(whole, **changes)


@pytest.fixture
def _one_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's rate, which takes half a second to measure."""
    monkeypatch.setattr(cost_module, "this_machine", RATE)


@pytest.mark.usefixtures("_one_rate")
def test_throughput_is_measured_on_real_steps_and_its_share_gives_back_their_time() -> None:
    told: list[float] = []

    def note(task: str, completed: float, total: float, message: str = "") -> None:
        told.append(completed / total)

    found = measured_throughput(specification(), LANGUAGE, seconds=0.05, progress=note)
    assert found.sentences == 8
    assert found.steps == 3 * len(told)
    assert told == sorted(told)
    assert told[-1] == 1
    assert found.share > 0
    in_hours = hours(found.step.operations, found.device, found.share)
    assert in_hours * 3600 == pytest.approx(found.seconds_a_step)
    assert found.peak_bytes is None


def test_a_step_that_takes_too_long_is_measured_on_fewer_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost_module, "this_machine", lambda *_: Device("slow", 1e8))
    found = measured_throughput(specification(batch_size=4096), LANGUAGE, seconds=0.1)
    whole = run_cost(planned(batch_size=4096)).step
    five_steps = 5 * 3600 * hours(found.step.operations, found.device)
    assert five_steps <= 0.1 < five_steps * (1 + 1 / found.sentences)
    assert found.step.operations == pytest.approx(whole.operations * found.sentences / 4096, rel=1e-6)


@pytest.mark.usefixtures("_one_rate")
def test_a_step_beyond_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", lambda name: 100)  # pages, and bytes per page
    with pytest.raises(BadInput, match=r"a step needs about .* GB and cpu has 0 GB"):
        measured_throughput(specification(), LANGUAGE)


@pytest.mark.usefixtures("_one_rate")
def test_throughput_passes_as_much_at_once_as_the_run_does(monkeypatch: pytest.MonkeyPatch) -> None:
    compute = Compute(micro_batch=2)
    room = run_cost(planned(compute=compute)).step.memory_bytes
    assert room < run_cost(planned()).step.memory_bytes
    monkeypatch.setattr(os, "sysconf", lambda name: room if name == "SC_PHYS_PAGES" else 1)
    passed: list[int] = []

    class Noting(MaskedObjective):
        def logits(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
            passed.append(len(batch))
            return super().logits(model, batch)

    found = measured_throughput(specification(objective=Noting(), compute=compute), LANGUAGE, seconds=0.03)
    assert found.sentences == 8
    assert set(passed) == {2}


def test_a_rate_is_measured_in_either_precision() -> None:
    for precision in ("float32", "bfloat16"):
        machine = this_machine("cpu", precision)
        assert machine.operations_per_second > 1e6
        assert f"processor ({precision}, measured" in machine.name
