"""What a run costs before it starts: floating-point operations, hours, gigabytes."""

import time
from dataclasses import dataclass

import torch

from isoloss.experiments.planned_run import PlannedRun
from isoloss.models.shapes import Shape
from isoloss.models.transformers import parameter_count

UTILISATION = 0.35
"""Share of a device's dense matrix rate that training usually reaches; stated wherever hours are shown."""


@dataclass(frozen=True)
class Device:
    """A device with the rate of its dense matrix products, in floating-point operations a second."""

    name: str
    operations_per_second: float


A100 = Device("one A100 (float32 as the loop trains, 19.5 TFLOP/s by its data sheet)", 19.5e12)


def training_operations(shape: Shape, words: int, sentence_tokens: int, batch_size: int, steps: int) -> float:
    """Floating-point operations of pre-training: three times the forward pass's matrix products.

    A forward pass costs 2 operations a weight and token in the blocks, 4 S d a token and layer for
    attention over S tokens, and 2 operations a weight of the prediction head for the one masked word of
    each sentence. Dropout, norms and the optimiser are not counted.

    >>> training_operations(Shape(64, 1, 1, 256), words=12, sentence_tokens=9, batch_size=1, steps=1)
    2745600.0
    """
    width = shape.width
    block = 4 * width**2 + 2 * width * shape.inner_width
    a_token = shape.layers * (2 * block + 4 * sentence_tokens * width)
    head = 2 * (width**2 + width * words)
    return 3.0 * steps * batch_size * (a_token * sentence_tokens + head)


def run_operations(run: PlannedRun) -> float:
    """Floating-point operations of a run's pre-training; see `training_operations`.

    Of a model without a transformer's shape, 6 a parameter and token.
    """
    words, tokens = run.language.words, run.language.maximum_length + 1
    shape = getattr(run.architecture, "shape", None)
    if isinstance(shape, Shape):
        return training_operations(shape, words, tokens, run.batch_size, run.steps)
    parameters = parameter_count(run.architecture, words, run.language.maximum_length)
    return 6.0 * parameters * tokens * run.batch_size * run.steps


def hours(operations: float, device: Device) -> float:
    """Hours on `device` at UTILISATION.

    >>> round(hours(19.5e12 * 3600 * 0.35, A100), 6)
    1.0
    """
    return operations / (device.operations_per_second * UTILISATION) / 3600


def this_machine() -> Device:
    """The processor of this machine, with its measured single-precision matrix rate (about half a second)."""
    factor = torch.rand(1024, 1024)
    torch.mm(factor, factor)
    start = time.perf_counter()
    products = 0
    while time.perf_counter() - start < 0.4:
        torch.mm(factor, factor)
        products += 1
    rate = products * 2 * 1024**3 / (time.perf_counter() - start)
    return Device(f"this machine's processor (measured: {rate / 1e9:.0f} GFLOP/s)", rate)
