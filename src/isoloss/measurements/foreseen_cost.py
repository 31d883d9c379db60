"""What measuring a model's flatness will take, counted from its configuration before any weight is read."""

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
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedModel

from isoloss.curvature.per_sentence.parameter_uses import every_parameter_recorded
from isoloss.curvature.per_sentence.traces import sentence_fisher_traces
from isoloss.device import free_memory
from isoloss.errors import BadInput, is_failure, reason_of
from isoloss.measurements.sampled_batches import SENTENCES_A_BATCH
from isoloss.models.hub import quiet, refusing, sized_as_published
from isoloss.models.loading import Prediction, configuration_of, longest_sentence, number_of_tokens
from isoloss.models.stored_weights import HALVES
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.evaluation import logits_at_predictions
from isoloss.objectives.pretrained import PretrainedCausal, PretrainedMasked, masked_batch, next_token_batch

SCORES_HELD = 3
"""Arrays of all scores that are there at once: the scores, their directions, and what is made of them."""
SENTENCES_TIMED = 2
REPEATED_HELD = 2
"""The factors of the gradient of weights with several uses: each use's, and then all of them joined."""
GRADIENTS_HELD = 3
"""Gradients of matrices as large as the largest: of two, or of both uses of a tied one and their sum."""


@dataclass(frozen=True)
class Counted:
    """What one sentence costs a model of `parameters` numbers that take `bytes_of_weights`.

    `kept_bytes` is what a forward pass keeps for the backward pass, `score_bytes` one array of the scores of
    its predictions, and `operations` those of the forward pass's matrix products. `repeated_bytes` are the
    inputs and outputs of modules that are passed more than once, as layers that share their weights are: both
    are held until the last of their uses. `largest_bytes` are those of the largest matrix.
    """

    parameters: int
    bytes_of_weights: int
    kept_bytes: int
    score_bytes: int
    operations: float
    repeated_bytes: int
    largest_bytes: int

    def sentences_at_once(self, memory_bytes: int) -> int:
        """How many sentences of the counted length `sentence_fisher_traces` passes at once."""
        return min(SENTENCES_A_BATCH, max(1, memory_bytes // (self.kept_bytes + 4 * self.score_bytes)))

    def peak_bytes(self, memory_bytes: int) -> int:
        """The most memory at any time, without the interpreter and its libraries."""
        at_once = self.sentences_at_once(memory_bytes)
        held = self.kept_bytes + SCORES_HELD * self.score_bytes
        passes = at_once * (held + REPEATED_HELD * self.repeated_bytes)
        # Before, one sentence passes forward and backward in the ordinary way, a gradient at a time.
        return self.bytes_of_weights + max(passes, held + GRADIENTS_HELD * self.largest_bytes)


@dataclass(frozen=True)
class ForeseenCost:
    """The cost of a model's flatness on sentences of `length` tokens; bytes are of the whole process.

    `process_bytes` is what the interpreter and its libraries take on this machine's processor, and is part of
    `peak_bytes`; 0 for another device. `seconds_a_sentence` is of this machine: None if it is not known, for
    the reason `untimed`.
    """

    architecture: str
    kind: str
    prediction: Prediction
    tokens: int
    longest: int | None
    length: int
    precision: str
    counted: Counted
    at_once: int
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
    """Count a model by its config.json alone, and time one of its layers with random weights.

    Without a `precision`, it is float32 if that fits into `budget` bytes, or without one into the memory
    there is, and otherwise the half precision that the configuration names. Raises BadInput for a folder
    without a configuration of a language model, and for a model whose forward pass depends on its weights.
    """
    config, prediction = configuration_of(name, objective)
    with refusing("language model", name):
        _kind(prediction)._model_mapping[type(config)]  # imports its module
    process = _process_bytes() if device == "cpu" else 0
    limit = free_memory(torch.device(device)) + process if budget is None else budget
    stored = getattr(config, "dtype", None)
    halves = [each for each in HALVES if each == stored]
    tried = [torch.float32, *halves] if precision is None else [precision]
    for each in tried:
        model, counted, used = _counted(name, config, prediction, each, length)
        peak = process + counted.peak_bytes(memory_bytes)
        if peak <= limit:
            break
    seconds, why = _timed(config, prediction, each, used, counted, device)
    if process:  # What the libraries have taken for themselves on their first pass stays
        gc.collect()
        process = max(process, _resident_bytes())
        peak = process + counted.peak_bytes(memory_bytes)
    return ForeseenCost(
        type(model).__name__,
        config.model_type,
        prediction,
        number_of_tokens(model),
        longest_sentence(model),
        used,
        str(each).removeprefix("torch."),
        counted,
        counted.sentences_at_once(memory_bytes),
        process,
        peak,
        seconds,
        why,
    )


def _kind(prediction: Prediction) -> Any:
    return AutoModelForCausalLM if prediction == "causal" else AutoModelForMaskedLM


def _counted(
    name: str, config: Any, prediction: Prediction, precision: torch.dtype, length: int
) -> tuple[PreTrainedModel, Counted, int]:
    """A model without storage, its cost, and the length of the sentence: at most the longest it reads."""
    try:
        with (
            refusing("language model", name),
            quiet(),
            sized_as_published(Path(name)),
            FakeTensorMode(allow_non_fake_inputs=True),
        ):
            model = _kind(prediction).from_config(config, dtype=precision).eval()
            used = min(length, longest_sentence(model) or length)
            return model, _of_one_sentence(model, prediction, used), used
    except BadInput as error:
        if error.__cause__ is None or "DataDependent" not in type(error.__cause__).__name__:
            raise
        raise BadInput(
            f"the forward pass of {name} depends on the values of its weights, so that its configuration "
            "does not tell its cost; run isoloss inspect on its whole folder, without --for"
        ) from error


def _of_one_sentence(model: PreTrainedModel, prediction: Prediction, length: int) -> Counted:
    predictions = length - 1 if prediction == "causal" else max(1, round(0.15 * length))
    ids, rows = torch.ones(1, length, dtype=torch.int64), torch.zeros(predictions, dtype=torch.int64)
    batch = Batch(ids, ids > 0, rows, rows, rows)
    # As `causal_logits` and `masked_logits` of a sentence without padding, which look at values.
    asked = {"use_cache": False} if prediction == "causal" and hasattr(model.config, "use_cache") else {}
    parameters = list(model.parameters())
    of_model = {each.untyped_storage()._cdata for each in (*parameters, *model.buffers())}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept.setdefault(tensor.untyped_storage()._cdata, tensor)
        return tensor

    passed: dict[nn.Module, list[int]] = {}

    def note(module: nn.Module, inputs: Any, output: Any) -> None:
        arrays = [each for each in (*inputs, output) if isinstance(each, Tensor)]
        passed.setdefault(module, []).append(sum(each.numel() * each.element_size() for each in arrays))

    for module in model.modules():
        if next(module.parameters(recurse=False), None) is not None:
            module.register_forward_hook(note)
    with (
        every_parameter_recorded(model),
        saved_tensors_hooks(keep, lambda tensor: tensor),
        FlopCounterMode(display=False) as counter,
    ):
        scores = logits_at_predictions(model, batch, **asked)
    saved = {place: each.untyped_storage().nbytes() for place, each in kept.items() if place not in of_model}
    weights = sum(each.numel() * each.element_size() for each in (*parameters, *model.buffers()))
    return Counted(
        sum(each.numel() for each in parameters),
        weights,
        sum(saved.values()),
        scores.numel() * scores.element_size(),
        float(counter.get_total_flops()),
        sum(sum(of_module) for of_module in passed.values() if len(of_module) > 1),
        max(each.numel() * each.element_size() for each in parameters),
    )


def _timed(
    config: Any, prediction: Prediction, precision: torch.dtype, length: int, whole: Counted, device: str
) -> tuple[float | None, str]:
    """Seconds a sentence, from the same model with one layer and random weights; or None, and why.

    One layer's time is multiplied by the ratio of the counted operations.
    """
    small = deepcopy(config)
    text = small.get_text_config()
    try:
        text.num_hidden_layers = 1
        if getattr(text, "layer_types", None):
            text.layer_types = text.layer_types[:1]
        _, counted, _ = _counted("one layer", small, prediction, precision, length)
        if 2 * counted.bytes_of_weights > free_memory(torch.device(device)):
            return None, "the memory here does not hold one of its layers"
        with quiet():
            model = _kind(prediction).from_config(small, dtype=precision).eval().to(device)
        sentences = [[1] * length] * SENTENCES_TIMED
        if prediction == "causal":
            objective: Objective = PretrainedCausal()
            batch = next_token_batch(sentences, 0)
        else:
            count = max(1, round(0.15 * length))
            objective = PretrainedMasked()
            batch = masked_batch(sentences, [range(count)] * len(sentences), 1, 0)
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


def _resident_bytes() -> int:
    """The memory that this process holds now; 0 where the system does not say."""
    told = Path("/proc/self/statm")
    return sysconf("SC_PAGE_SIZE") * int(told.read_text().split()[1]) if told.is_file() else 0


def _process_bytes() -> int:
    """The most memory that this process has held so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
