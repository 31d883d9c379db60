"""What a run costs before it starts: floating-point operations, hours, gigabytes."""

import time
from dataclasses import dataclass

import torch

from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.step_cost import StepCost, step_cost
from isoloss.measurements.accuracy import ReadsFeatures
from isoloss.models.shapes import Shape
from isoloss.models.transformers import parameter_count
from isoloss.pretraining.specification import Precision

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
    """The cost of a run: operations of all its steps, the cost of a step, and bytes on disk and of features.

    `disk_bytes` covers all checkpoints' weights, averaged and raw if both are kept, and the training state
    kept by the last ones; `feature_bytes` is what the largest of its probes holds in main memory, i.e. the
    vectors of all words of its train and test sentences.
    """

    operations: float
    step: StepCost
    disk_bytes: int
    feature_bytes: int


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
    read = [m.quantity for m in run.measured if isinstance(m.quantity, ReadsFeatures)]
    examples = max((quantity.feature_sentences for quantity in read), default=0)
    copies = 1 if run.averaging_horizon is None else 2
    weights = copies * len(run.checkpoint_steps) * 4 * step.parameters
    return RunCost(
        operations=step.operations * run.steps,
        step=step,
        disk_bytes=weights + min(COPIES_WITH_TRAINING_STATE, len(run.checkpoint_steps)) * step.state_bytes,
        feature_bytes=4 * examples * longest * step.width,
    )


def training_operations(shape: Shape, words: int, sentence_tokens: int, batch_size: int, steps: int) -> float:
    """Floating-point operations of pre-training: three times the forward pass's matrix products.

    A forward pass costs 2 operations per weight and token in the blocks, 4 S d per token and layer for
    attention over S tokens, and 2 operations per weight of the prediction head for the one masked word of
    each sentence. At the other words, the last block computes only keys and values (`states_at`). Dropout,
    norms and the optimiser are not counted.

    >>> training_operations(Shape(64, 1, 1, 256), words=12, sentence_tokens=9, batch_size=1, steps=1)
    724224.0
    """
    width = shape.width
    keys_and_values = 4 * width**2
    the_rest = 4 * width**2 + 4 * width * shape.inner_width + 4 * sentence_tokens * width
    everywhere = (shape.layers - 1) * (keys_and_values + the_rest) + keys_and_values
    head = 2 * (width**2 + width * words)
    return 3.0 * steps * batch_size * (everywhere * sentence_tokens + the_rest + head)


def run_operations(run: PlannedRun) -> float:
    """A quick estimate of the floating-point operations of a run's pre-training, used to order jobs.

    See `training_operations`; for a model without a transformer's shape, 6 per parameter and token.
    """
    words, tokens = run.language.words, run.language.maximum_length + 1
    shape = getattr(run.architecture, "shape", None)
    if isinstance(shape, Shape):
        return training_operations(shape, words, tokens, run.batch_size, run.steps)
    parameters = parameter_count(run.architecture, words, run.language.maximum_length)
    return 6.0 * parameters * tokens * run.batch_size * run.steps


def hours(operations: float, device: Device, share: float = UTILISATION) -> float:
    """Hours on `device` at `share` of its rate: a typical value, or the result of `measured_throughput`.

    >>> round(hours(19.5e12 * 3600 * 0.35, A100), 6)
    1.0
    """
    return operations / (device.operations_per_second * share) / 3600


def this_machine(device: str = "cpu", precision: Precision = "float32") -> Device:
    """A device of this machine with its measured matrix rate in that precision: about half a second."""
    place = torch.device(device)
    size = 512 if place.type == "cpu" else 8192
    factor = torch.rand(size, size, device=place, dtype=getattr(torch, precision))
    products, elapsed = 0, 0.0
    torch.mm(factor, factor)
    wait_for(place)
    start = time.perf_counter()
    while elapsed < 0.4:
        torch.mm(factor, factor)
        wait_for(place)
        products += 1
        elapsed = time.perf_counter() - start
    rate = products * 2 * size**3 / elapsed
    name = "processor" if place.type == "cpu" else torch.cuda.get_device_name(place)
    return Device(f"this machine's {name} ({precision}, measured: {rate / 1e9:,.1f} GFLOP/s)", rate)


def wait_for(device: torch.device) -> None:
    """Wait until the device has finished its work; immediate on a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
