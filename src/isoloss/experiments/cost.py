"""What a run costs before it starts: operations, hours, gigabytes; and how fast it really trains here."""

import os
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import torch

from isoloss.device import usable_device
from isoloss.errors import BadInput
from isoloss.experiments.languages import ReadyLanguage
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.step_cost import StepCost, step_cost
from isoloss.languages.language import SentenceSource
from isoloss.languages.sentences import words_in_a_row
from isoloss.models.transformers import parameter_count
from isoloss.objectives.batch import Batch
from isoloss.pretraining.specification import Precision, PretrainingSpecification
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import Training, UpdateRule
from isoloss.progress import Progress, silent
from isoloss.seeds import caller_randomness_kept, derived_seed, seed_dropout

UTILISATION = 0.35
"""Share of a device's dense matrix rate that training usually reaches; stated wherever hours are shown."""


@dataclass(frozen=True)
class Device:
    """A device with the rate of its dense matrix products, in floating-point operations per second."""

    name: str
    operations_per_second: float


A100 = Device("one A100 (float32 as the loop trains, 19.5 TFLOP/s by its data sheet)", 19.5e12)
H100: dict[Precision, Device] = {
    "float32": Device("one H100 (float32, 67 TFLOP/s by its data sheet)", 67e12),
    "bfloat16": Device("one H100 (bfloat16, 989 TFLOP/s by its data sheet)", 989e12),
}
"""By a run's precision."""

COPIES_WITH_TRAINING_STATE = 2
"""Checkpoints of a run that keep the rule's state beside the weights."""


@dataclass(frozen=True)
class RunCost:
    """The cost of a run: operations of all its steps, the cost of a step, and bytes on disk.

    `disk_bytes` covers all checkpoints' weights, averaged and raw if both are kept, and the training state
    kept by the last ones.
    """

    operations: float
    step: StepCost
    disk_bytes: int


def run_cost(run: PlannedRun) -> RunCost:
    """The cost of a run, from its counted matrix products (`step_cost`), with all steps like the first."""
    words, longest = run.language.words, run.language.maximum_length
    step = step_cost(
        run.architecture,
        run.update_rule,
        run.objective,
        run.batch_size,
        words,
        longest,
        run.compute.micro_batch,
    )
    copies = 1 if run.averaging_horizon is None else 2
    weights = copies * len(run.checkpoint_steps) * 4 * step.parameters
    return RunCost(
        operations=step.operations * run.steps,
        step=step,
        disk_bytes=weights + min(COPIES_WITH_TRAINING_STATE, len(run.checkpoint_steps)) * step.state_bytes,
    )


def run_operations(run: PlannedRun) -> float:
    """A quick estimate of a run's operations, 6 per parameter and token: jobs are ordered by it."""
    words, longest = run.language.words, run.language.maximum_length
    parameters = parameter_count(run.architecture, words, longest)
    return 6.0 * parameters * (longest + 1) * run.batch_size * run.steps


def hours(operations: float, device: Device, share: float = UTILISATION) -> float:
    """Hours on `device` at `share` of its rate: a typical value, or the result of `measured_throughput`.

    >>> round(hours(19.5e12 * 3600 * 0.35, A100), 6)
    1.0
    """
    return operations / (device.operations_per_second * share) / 3600


def this_machine(device: str = "cpu", precision: Precision = "float32") -> Device:
    """A device of this machine with its measured matrix rate in that precision: about half a second.

    The rate is that of the fastest of many products, which other work on the machine slows least.
    """
    place = torch.device(device)
    size = 512 if place.type == "cpu" else 8192
    factor = torch.rand(size, size, device=place, dtype=getattr(torch, precision))
    seconds: list[float] = []
    torch.mm(factor, factor)
    wait_for(place)
    while sum(seconds) < 0.4:
        start = perf_counter()
        torch.mm(factor, factor)
        wait_for(place)
        seconds.append(perf_counter() - start)
    rate = 2 * size**3 / min(seconds)
    name = "processor" if place.type == "cpu" else torch.cuda.get_device_name(place)
    return Device(f"this machine's {name} ({precision}, measured: {rate / 1e9:,.1f} GFLOP/s)", rate)


def wait_for(device: torch.device) -> None:
    """Wait until the device has finished its work; immediate on a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


STEPS_BEFORE = 2
"""Steps that are not timed: the first allocate, tune kernels, and compile."""
STEPS_A_TURN = 3
"""Steps timed as one, so that a device is waited for no more often than in training."""


@dataclass(frozen=True)
class Throughput:
    """A few real steps: their sentences each, their time (median over turns), and the device's matrix rate.

    `sentences` are fewer than the specification's batch where a whole one would have taken too long.
    `peak_bytes` is what the steps took of the device's memory, None where that is unknown.
    """

    device: Device
    step: StepCost
    sentences: int
    steps: int
    seconds_a_step: float
    peak_bytes: int | None

    @property
    def operations_per_second(self) -> float:
        """What the steps reach, their matrix products over all their time."""
        return self.step.operations / self.seconds_a_step

    @property
    def share(self) -> float:
        """Share of the device's matrix rate that the steps reach; see `hours`."""
        return self.operations_per_second / self.device.operations_per_second


def measured_throughput(
    specification: PretrainingSpecification,
    language: SentenceSource,
    device: str = "cpu",
    seconds: float = 10.0,
    progress: Progress = silent,
) -> Throughput:
    """Train a throw-away model for about `seconds`, without a checkpoint, and time its steps.

    Sentences are drawn beforehand, as workers would have done; losses are not read off the device. Steps
    take the whole batch where five fit into the time at the usual share of the device's rate.

    Raises BadInput for a rule that does not fit, a device that cannot be used, and where the step needs
    more memory than the device has free.
    """
    place = usable_device(device)
    machine = this_machine(str(place), specification.compute.precision)
    words, longest, seed = len(language.vocabulary), language.maximum_length, specification.seed
    at_once = specification.compute.micro_batch

    def cost_of(sentences: int) -> StepCost:
        rule, objective = specification.update_rule, specification.objective
        return step_cost(specification.architecture, rule, objective, sentences, words, longest, at_once)

    whole = cost_of(specification.batch_size)
    affordable = seconds * machine.operations_per_second * UTILISATION / (STEPS_BEFORE + STEPS_A_TURN)
    share_of_batch = min(1.0, affordable / whole.operations)
    sentences = max(2, int(share_of_batch * specification.batch_size))
    cost = cost_of(sentences)
    _refuse_too_large(cost, place)
    with caller_randomness_kept(place):
        model = specification.architecture.build(words, longest, derived_seed(seed, "initialisation"))
        model = model.to(place).train()
        objective = specification.compute.of(specification.objective, model)
        training = Training(
            model, objective, language, seed, specification.steps, sentences, micro_batch=at_once
        )
        rule = specification.update_rule.build(training)
        batch = Stream(language, specification.objective, sentences, seed).batch(0).to(place)
        times = _seconds_a_step(rule, batch, place, seed, seconds, progress)
    peak = torch.cuda.max_memory_allocated(place) if place.type == "cuda" else None
    return Throughput(machine, cost, sentences, STEPS_A_TURN * len(times), median(times), peak)


def run_throughput(run: PlannedRun, device: str = "cpu", seconds: float = 10.0) -> Throughput:
    """`measured_throughput` of a planned run, before any text has been fetched or model trained for it.

    Where language or corpus is yet to be made, `words_in_a_row` stand in: a step takes no longer for what
    its words are.
    """
    plan = run.language
    language: SentenceSource = words_in_a_row(plan.words, plan.maximum_length)
    if isinstance(plan, ReadyLanguage):
        language = plan.ready
    return measured_throughput(run.planned_specification, language, device, seconds)


def _seconds_a_step(
    rule: UpdateRule, batch: Batch, device: torch.device, seed: int, seconds: float, progress: Progress
) -> list[float]:
    """One number a turn, of which there are as many as go into the time, and one at least."""

    def take(first: int, stop: int) -> float:
        wait_for(device)
        asked = perf_counter()
        for step in range(first, stop):
            seed_dropout(seed, step, device)
            rule.step(batch, step)
        wait_for(device)
        return (perf_counter() - asked) / (stop - first)

    take(1, 1 + STEPS_BEFORE)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    times: list[float] = []
    begun = perf_counter()
    while not times or perf_counter() - begun < seconds:
        first = 1 + STEPS_BEFORE + STEPS_A_TURN * len(times)
        times.append(take(first, first + STEPS_A_TURN))
        progress("measuring throughput", min(seconds, perf_counter() - begun), seconds)
    return times


def _refuse_too_large(cost: StepCost, device: torch.device) -> None:
    if device.type == "cuda":
        room, _ = torch.cuda.mem_get_info(device)
    else:
        room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if cost.memory_bytes > room:
        raise BadInput(
            f"a step needs about {cost.memory_bytes / 1e9:.0f} GB and {device} has {room / 1e9:.0f} GB; "
            "measure a smaller model or batch here, or this one on a larger device"
        )
