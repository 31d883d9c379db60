"""What measuring a model's flatness will take, counted from its configuration before any weight is read."""

import ctypes
import gc
import resource
import sys
from copy import deepcopy
from dataclasses import dataclass
from os import sysconf
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedModel

from isoloss.curvature.per_sentence.directions import Directions, drawn_directions
from isoloss.curvature.per_sentence.norms import norms_along
from isoloss.curvature.per_sentence.traces import (
    a_gradient_at_a_time,
    sentence_fisher_traces,
    sentences_at_once,
)
from isoloss.device import free_memory
from isoloss.errors import BadInput, is_failure, reason_of
from isoloss.measurements.inspected_model import random_batch
from isoloss.measurements.live_memory import LiveMemory, ProductOperations
from isoloss.measurements.models_together import predicting
from isoloss.measurements.sampled_batches import SENTENCES_A_BATCH, objective_of
from isoloss.models.hub import quiet, refusing, sized_as_published
from isoloss.models.loading import Prediction, configuration_of, longest_sentence, number_of_tokens
from isoloss.models.stored_weights import HALVES
from isoloss.models.task_heads import Head, class_of_head, configuration_with_head, head_of
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.evaluation import evaluation_mode

SENTENCES_TIMED = 2
_ONE_LAYER = "one layer"


@dataclass(frozen=True)
class Counted:
    """What the trace of a model of `parameters` numbers takes, which are `bytes_of_weights`.

    `at_once` is how many sentences share a pass. `bytes_of_pass` is the most that is alive at any time of
    such a pass, and `bytes_of_gradients` that of the pass before, forward and backward over one sentence, in
    which every gradient is looked at; both with the weights. `operations` are those of a pass's products,
    forward and backward, for each of its sentences.
    """

    parameters: int
    bytes_of_weights: int
    at_once: int
    bytes_of_pass: int
    bytes_of_gradients: int
    operations: float

    @property
    def peak_bytes(self) -> int:
        """The most memory of tensors at any time."""
        return max(self.bytes_of_pass, self.bytes_of_gradients)


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
    """Carry a model's measurement out on tensors without storage, and time one of its layers.

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
        model, used = _without_storage(name, config, prediction, each, length)
        counted = _counted(name, model, prediction, used, SENTENCES_A_BATCH, memory_bytes)
        if process + counted.peak_bytes <= limit:
            break
    before = _resident_bytes()
    seconds, why = _timed(config, prediction, each, used, counted, device)
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
        _kind(prediction)._model_mapping[type(config)]  # imports its module
    return config, prediction


def _kind(prediction: Prediction | Head) -> Any:
    if prediction == "causal":
        return AutoModelForCausalLM
    return AutoModelForMaskedLM if prediction == "masked" else class_of_head(prediction)


def _without_storage(
    name: str, config: Any, prediction: Prediction | Head, precision: torch.dtype, length: int
) -> tuple[PreTrainedModel, int]:
    """A model of tensors without storage, and the length of the sentence: at most the longest it reads."""
    with (
        refusing("language model", name),
        quiet(),
        sized_as_published(Path(name)),
        FakeTensorMode(allow_non_fake_inputs=True),
    ):
        model = _kind(prediction).from_config(config, dtype=precision).eval()
    give_indices_values(model)
    return model, min(length, longest_sentence(model) or length)


def give_indices_values(model: PreTrainedModel) -> None:
    """Replace buffers of whole numbers, such as positions, by zeros: tables are looked up by their values."""
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.dtype == torch.int64:
                module._buffers[name] = torch.zeros(buffer.shape, dtype=torch.int64)


def _asked(
    model: PreTrainedModel, prediction: Prediction | Head, length: int, sentences: int
) -> tuple[Objective, Batch]:
    mask = 0 if prediction == "masked" else None
    objective = objective_of(predicting({"": model}, prediction, False, None, mask))
    return objective, random_batch(model, prediction, number_of_tokens(model), (length,) * sentences)


def _counted(
    name: str,
    model: PreTrainedModel,
    prediction: Prediction | Head,
    length: int,
    sentences: int,
    memory_bytes: int,
) -> Counted:
    """The passes over a batch of so many sentences, carried out on tensors without storage."""
    try:
        with refusing("language model", name), quiet():
            objective, batch = _asked(model, prediction, length, sentences)
            return count_passes(model, objective, batch, memory_bytes)
    except BadInput as error:
        why = type(error.__cause__).__name__
        if not why.startswith(("DataDependent", "DynamicOutputShape")):
            raise
        raise BadInput(
            f"the forward pass of {name} depends on the values of its weights, so that its configuration "
            "does not tell its cost; run isoloss inspect on its whole folder, without --for"
        ) from error


def count_passes(model: PreTrainedModel, objective: Objective, batch: Batch, memory_bytes: int) -> Counted:
    """Count what the trace of a model without storage takes on the batch, whose sentences are equally long.

    The passes are those of `refuse_without_gradient` and of `sentence_fisher_traces`, without what they do
    with values.
    """
    of_model = [*model.parameters(), *model.buffers()]
    sentence = batch.part(0, 1)
    with LiveMemory(of_model) as memory, evaluation_mode(model), torch.enable_grad():
        scores = objective.logits(model, sentence)
        a_gradient_at_a_time(scores.mean(), model, lambda _: None)
        del scores
    of_gradients = memory.peak
    at_once = sentences_at_once(model, objective, batch, memory_bytes)
    piece = batch.part(0, at_once).narrowed()
    of_first = (piece.rows == 0).nonzero().flatten()
    first: list[tuple[Tensor, Directions]] = []

    def draw(logits: Tensor) -> Directions:
        bits = logits.new_empty(len(logits), -(-logits.shape[1] // 8), dtype=torch.uint8)
        drawn = drawn_directions(logits, bits)
        if at_once > 1:  # one sentence is measured again on its own
            first.append((logits[of_first], drawn.at(of_first)))
        return drawn

    with LiveMemory(of_model) as memory, ProductOperations() as counter:
        norms_along(model, objective, piece, draw, memory_bytes=memory_bytes)
    return Counted(
        sum(each.numel() for each in model.parameters()),
        sum(each.numel() * each.element_size() for each in of_model),
        at_once,
        memory.peak,
        of_gradients,
        counter.operations / at_once,
    )


def _timed(
    config: Any,
    prediction: Prediction | Head,
    precision: torch.dtype,
    length: int,
    whole: Counted,
    device: str,
) -> tuple[float | None, str]:
    """Seconds a sentence, from the same model with one layer and random weights; or None, and why.

    One layer's time is multiplied by the ratio of the counted operations.
    """
    small = _of_one_layer(config)
    try:
        model, _ = _without_storage(_ONE_LAYER, small, prediction, precision, length)
        counted = _counted(_ONE_LAYER, model, prediction, length, SENTENCES_TIMED, sys.maxsize)
        if counted.peak_bytes > free_memory(torch.device(device)):
            return None, "the memory here does not hold one of its layers"
        with quiet():
            model = _kind(prediction).from_config(small, dtype=precision).eval().to(device)
        objective, batch = _asked(model, prediction, length, SENTENCES_TIMED)
        batch, spent = batch.to(torch.device(device)), []
        for _ in range(3):
            begun = perf_counter()
            sentence_fisher_traces(model, objective, batch, seed=0, compare=False)
            spent.append((perf_counter() - begun) / len(batch))
    except BaseException as error:
        if not is_failure(error):
            raise
        return None, f"no single layer of it could be run ({reason_of(error)})"
    return min(spent[1:]) * whole.operations / counted.operations, ""


def _of_one_layer(config: Any) -> Any:
    """The same configuration with one layer, and with one of a decoder that has its own."""
    small = deepcopy(config)
    text = small.get_text_config()
    text.num_hidden_layers = 1
    for layers in ("num_decoder_layers", "decoder_layers"):
        if isinstance(getattr(text, layers, None), int):
            setattr(text, layers, 1)
    if getattr(text, "layer_types", None):
        text.layer_types = text.layer_types[:1]
    return small


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
