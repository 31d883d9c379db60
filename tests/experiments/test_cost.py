"""The cost of runs: operations against closed forms, bytes against real files, rates against a clock."""

import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

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
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.models.transformers import parameter_count
from isoloss.objectives.batch import Batch
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.descent import SGD, AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.other_optimisers import SOAP, Muon, Sophia
from isoloss.pretraining.specification import Compute, PretrainingSpecification
from isoloss.results.checkpoint import TRAINING_STATE_FILE, WEIGHTS_FILE
from norm_experiments import RUN

ADAMW = AdamW(warm_up_steps=0)
LANGUAGE = pcfg(laptop_grammar(5))
RATE = cache(this_machine)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"update_rule": Sophia(warm_up_steps=0)},
        {"averaging_horizon": 2},  # a run that keeps an average has its weights on disk twice
        *(
            pytest.param({"update_rule": rule}, marks=pytest.mark.thorough)
            for rule in (SGD(warm_up_share=0.0, momentum=0.9), Muon(rest=ADAMW), SOAP(warm_up_steps=0))
        ),
    ],
)
def test_bytes_on_disk_are_those_of_a_real_run(changes: dict[str, object], tmp_path: Path) -> None:
    run = planned(**changes)
    pretrain(run.specification(LANGUAGE, tmp_path), LANGUAGE, tmp_path)
    weights = [load_file(path) for path in tmp_path.glob(f"steps/**/{WEIGHTS_FILE}")]
    states = [torch.load(path) for path in tmp_path.glob(f"steps/*/{TRAINING_STATE_FILE}")]
    assert len(weights) == len(run.checkpoint_steps) * (2 if run.averaging_horizon else 1)
    assert len(states) == COPIES_WITH_TRAINING_STATE
    cost = run_cost(run)
    assert bytes_of(states[0]) == cost.step.state_bytes
    assert bytes_of([weights, states]) == cost.disk_bytes
    assert cost.step.parameters == parameter_count(run.architecture, 8, 8)


def bytes_of(nested: Any) -> int:
    if isinstance(nested, torch.Tensor):
        return nested.nbytes
    inner = nested.values() if isinstance(nested, dict) else nested if isinstance(nested, list) else ()
    return sum(bytes_of(value) for value in inner)


def planned(**changes: object) -> PlannedRun:
    plan = {"language": ReadyLanguage(LANGUAGE), "update_rule": ADAMW, "batch_size": 8}
    return replace(RUN, **(plan | {"steps": 3, "checkpoint_steps": (1, 2, 3), "saturated_from": 1} | changes))


def test_a_runs_cost_is_that_of_its_steps() -> None:
    cost = run_cost(planned())
    assert cost.operations == 3 * cost.step.operations
    assert hours(cost.operations, Device("", 1.0), share=0.5) == pytest.approx(cost.operations * 2 / 3600)
    one_checkpoint = run_cost(planned(checkpoint_steps=(3,)))
    assert one_checkpoint.disk_bytes == 4 * cost.step.parameters + cost.step.state_bytes


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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_rate_is_measured_in_either_precision() -> None:
    for precision in ("float32", "bfloat16"):
        machine = this_machine("cpu", precision)
        assert machine.operations_per_second > 1e6
        assert f"processor ({precision}, measured" in machine.name
