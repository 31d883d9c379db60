"""What measuring a model's flatness will take, counted from its configuration before any weight is read."""

import ctypes
import gc
import resource
import sys
from dataclasses import dataclass
from os import sysconf
from pathlib import Path
from typing import Any

import torch

from isoloss.device import free_memory
from isoloss.measurements.counted_passes import Counted, class_of, counted_passes, without_storage
from isoloss.measurements.sampled_batches import SENTENCES_A_BATCH
from isoloss.measurements.timed_layers import timed_layers
from isoloss.models.hub import refusing
from isoloss.models.loading import Prediction, configuration_of, longest_sentence, number_of_tokens
from isoloss.models.stored_weights import HALVES
from isoloss.models.task_heads import Head, configuration_with_head, head_of


@dataclass(frozen=True)
class ForeseenCost:
    """The cost of a model's flatness on sentences of `length` tokens; bytes are of the whole process.

    `process_bytes` is what the interpreter and its libraries take on this machine's processor, and is part of
    `peak_bytes`; 0 for another device. `seconds_a_sentence` is of this machine: None if it is not known, for
    the reason `untimed`.
    """

    architecture: str
    kind: str
    prediction: Prediction | Head
    tokens: int
    longest: int | None
    length: int
    precision: str
    counted: Counted
    process_bytes: int
    peak_bytes: int
    seconds_a_sentence: float | None
    untimed: str = ""


def foreseen_cost(
    name: str,
    objective: Prediction | None,
    precision: torch.dtype | None,
    device: str,
    budget: int | None,
    length: int,
    memory_bytes: int,
) -> ForeseenCost:
    """Carry a model's measurement out on tensors without storage, and time a few of its layers.

    Only the folder's config.json is read. Without a `precision`, it is float32 if that fits into `budget`
    bytes, or without one into the memory there is, and otherwise the half precision that the configuration
    names. Raises BadInput for a folder without a configuration of a model that can be measured, and for a
    model whose forward pass depends on its weights.
    """
    config, prediction = _configuration(name, objective)
    process = _process_bytes() if device == "cpu" else 0
    limit = free_memory(torch.device(device)) + process if budget is None else budget
    stored = getattr(config, "dtype", None)
    halves = [each for each in HALVES if each == stored]
    tried = [torch.float32, *halves] if precision is None else [precision]
    for each in tried:
        model, used = without_storage(name, config, prediction, each, length)
        counted = counted_passes(name, model, prediction, used, SENTENCES_A_BATCH, memory_bytes)
        if process + counted.peak_bytes <= limit:
            break
    before = _resident_bytes()
    seconds, why = timed_layers(config, prediction, each, used, counted, device, memory_bytes)
    if process:  # What the libraries have taken for themselves on their first pass stays
        _give_freed_memory_back()
        process += max(0, _resident_bytes() - before)
    return ForeseenCost(
        type(model).__name__,
        config.model_type,
        prediction,
        number_of_tokens(model),
        longest_sentence(model),
        used,
        str(each).removeprefix("torch."),
        counted,
        process,
        process + counted.peak_bytes,
        seconds,
        why,
    )


def _configuration(name: str, objective: Prediction | None) -> tuple[Any, Prediction | Head]:
    """The configuration, and what a model of it predicts, as `load_together` finds it."""
    head = head_of(name) if objective is None else None
    if head is not None:
        return configuration_with_head(name, head), head
    config, prediction = configuration_of(name, objective)
    with refusing("language model", name):
        class_of(prediction)._model_mapping[type(config)]  # imports its module
    return config, prediction


def _resident_bytes() -> int:
    """The memory that this process holds now; 0 where the system does not say."""
    told = Path("/proc/self/statm")
    return sysconf("SC_PAGE_SIZE") * int(told.read_text().split()[1]) if told.is_file() else 0


def _process_bytes() -> int:
    """The most memory that this process has held so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _give_freed_memory_back() -> None:
    """Return what is freed to the system, as glibc otherwise does with large arrays only."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
