"""How long a sentence takes a model, told from a few of its layers with random weights."""

import math
import sys
from copy import deepcopy
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from isoloss.curvature.per_sentence.directions import Directions, drawn_directions, sign_bits
from isoloss.curvature.per_sentence.norms import norms_along
from isoloss.device import free_memory
from isoloss.errors import is_failure, reason_of
from isoloss.measurements.counted_passes import Counted, asked, class_of, counted_passes, without_storage
from isoloss.models.hub import quiet
from isoloss.models.loading import Prediction
from isoloss.models.task_heads import Head
from isoloss.objectives.batch import Batch, Objective

TOKENS_TIMED = 2048
"""About how many tokens the pass that is timed has at most: more are no faster each."""
_TURNS = 3
_FEW_LAYERS = "a model of few layers"


def timed_layers(
    config: Any,
    prediction: Prediction | Head,
    precision: torch.dtype,
    length: int,
    whole: Counted,
    device: str,
    memory_bytes: int,
) -> tuple[float | None, str]:
    """Seconds a sentence of the model whose passes are `whole`; or None, and why.

    The time of a pass through one layer, and what further layers add to it, multiplied by the ratio of the
    operations that all others add. What does not grow with the layers is thus counted once, however long it
    takes: an output layer that predicts few words has few operations, but all of its weights are read.
    """
    sentences = min(whole.at_once, max(1, TOKENS_TIMED // length))

    def shallow(layers: int) -> tuple[Any, Counted]:
        small = of_layers(config, layers)
        model, _ = without_storage(_FEW_LAYERS, small, prediction, precision, length)
        return small, counted_passes(_FEW_LAYERS, model, prediction, length, sentences, sys.maxsize)

    try:
        compared = [shallow(1)]
        one = compared[0][1]
        if (others := whole.operations - one.operations) > 0:
            # As much again as the first pass takes, so that noise in it is not multiplied.
            of_layer = shallow(2)[1].operations - one.operations
            compared.append(shallow(1 + math.ceil(min(one.operations, others) / of_layer)))
        if max(of_few.peak_bytes for _, of_few in compared) > free_memory(torch.device(device)):
            return None, "the memory here does not hold a few of its layers"
        passes = [_Pass(small, prediction, precision, length, sentences, device) for small, _ in compared]
        seconds = _fastest(passes, memory_bytes)
    except BaseException as error:
        if not is_failure(error):
            raise
        return None, f"no few layers of it could be run ({reason_of(error)})"
    if others <= 0:
        return seconds[0] / sentences, ""
    added = (seconds[1] - seconds[0]) / (compared[1][1].operations - one.operations)
    return (seconds[0] + others * max(0.0, added)) / sentences, ""


class _Pass:
    """A pass over random sentences through a model with random weights."""

    def __init__(
        self,
        config: Any,
        prediction: Prediction | Head,
        precision: torch.dtype,
        length: int,
        sentences: int,
        device: str,
    ) -> None:
        with quiet():
            self.model = class_of(prediction).from_config(config, dtype=precision).eval().to(device)
        objective, batch = asked(self.model, prediction, length, sentences)
        self.objective: Objective = objective
        self.batch: Batch = batch.to(torch.device(device))

    def seconds(self, memory_bytes: int) -> float:
        """How long it takes, without what is done once for many passes."""
        numbers, predictions = torch.arange(len(self.batch)), torch.bincount(self.batch.rows).cpu()

        def draw(logits: Tensor) -> Directions:
            return drawn_directions(logits, sign_bits(numbers, predictions, logits.shape[1], seed=0))

        begun = perf_counter()
        norms = norms_along(self.model, self.objective, self.batch, draw, memory_bytes=memory_bytes)
        for values in norms.groups.values():
            values.cpu()  # waits for the device
        return perf_counter() - begun


def _fastest(passes: list[_Pass], memory_bytes: int) -> list[float]:
    """The shortest time of each, in turns, after one that warms up."""
    turns = [[each.seconds(memory_bytes) for each in passes] for _ in range(1 + _TURNS)]
    return [min(spent) for spent in zip(*turns[1:], strict=True)]


def of_layers(config: Any, layers: int) -> Any:
    """The same configuration with at most so many layers, and of a decoder that has its own.

    >>> from transformers import GPT2Config
    >>> of_layers(GPT2Config(n_layer=12), 2).n_layer
    2
    """
    small = deepcopy(config)
    text = small.get_text_config()
    before = text.num_hidden_layers
    for name, value in list(vars(text).items()):
        if isinstance(value, list) and len(value) == before:  # one for each layer
            setattr(text, name, value[:layers])
    for name in ("num_hidden_layers", "num_decoder_layers", "decoder_layers"):
        if isinstance(found := getattr(text, name, None), int):
            setattr(text, name, min(layers, found))
    return small
