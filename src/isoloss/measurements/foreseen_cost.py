"""What measuring a model will take: counted from its configuration, and timed on a few of its layers."""

import ctypes
import gc
import math
import resource
import sys
from copy import deepcopy
from dataclasses import dataclass, replace
from os import sysconf
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from isoloss.curvature.per_sentence.directions import Directions, drawn_directions, sign_bits
from isoloss.curvature.per_sentence.norms import norms_along
from isoloss.device import free_memory
from isoloss.errors import is_failure, reason_of
from isoloss.measurements.counted_passes import Configured, Counted, counted_passes, without_storage
from isoloss.measurements.models_on_text import configuration_of, prediction_of
from isoloss.measurements.sampled_batches import FIRST_SENTENCES, SENTENCES_A_BATCH
from isoloss.models.hub import quiet, refusing
from isoloss.models.loading import LanguageObjective, refuse_without_layers
from isoloss.models.stored_weights import HALVES
from isoloss.models.tokenizer import longest_sentence, number_of_tokens
from isoloss.objectives.batch import Batch
from isoloss.progress import Progress, silent

TASK, PARTS = "passes counted and timed", 4


SENTENCES_FOR_ONE_PERCENT = (5_000, 120_000)
"""The least and the most that an error of 1 % takes among five published models, each on a text of its kind
(benchmarks/README.md). A configuration does not tell how much sentences differ; a pilot on a text does."""


@dataclass(frozen=True)
class ForeseenCost:
    """The cost of a model's flatness on sentences of `length` tokens; bytes are of the whole process.

    `process_bytes`, a part of `peak_bytes`, is what the interpreter and its libraries take, freed memory that
    they keep included; 0 for a device. `seconds_a_sentence` is None if not known, for the reason `untimed`.
    """

    architecture: str
    kind: str
    prediction: str
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
    objective: LanguageObjective | None,
    precision: torch.dtype | None,
    device: str,
    budget: int | None,
    length: int,
    memory_bytes: int,
    progress: Progress = silent,
) -> ForeseenCost:
    """Carry a model's measurement out on tensors without storage, and time a few of its layers.

    Only the folder's config.json is read. Without a `precision`, it is float32 if that fits into `budget`
    bytes, or else into the memory there is, and otherwise the half precision that the configuration names.
    Raises BadInput for a model that cannot be measured, or whose forward pass depends on its weights.
    """
    prediction = prediction_of(name, objective)
    config = configuration_of(name, prediction)
    with refusing("language model", name):
        prediction.model_class._model_mapping[type(config)]  # imports its module
        refuse_without_layers(name, config)
    process = _process_bytes() if device == "cpu" else 0
    limit = free_memory(torch.device(device)) + process if budget is None else budget
    stored = getattr(config, "dtype", None)
    halves = [each for each in HALVES if each == stored]
    tried = [torch.float32, *halves] if precision is None else [precision]
    progress(TASK, 0, PARTS, "all layers, without storage")
    for each in tried:
        asked = Configured(name, config, prediction, each, length)
        model = without_storage(asked)
        asked = replace(asked, length=min(length, longest_sentence(model) or length))
        counted = counted_passes(asked, model, SENTENCES_A_BATCH, memory_bytes)
        kept = counted.bytes_kept if process and _keeps_freed_memory() else 0
        if process + kept + counted.peak_bytes <= limit:
            break
    before = _resident_bytes()
    seconds, why = timed_layers(asked, counted, device, memory_bytes, progress)
    progress(TASK, PARTS, PARTS)
    if process:  # What the libraries have taken for themselves on their first pass stays
        _give_freed_memory_back()
        process += kept + max(0, _resident_bytes() - before)
    return ForeseenCost(
        type(model).__name__,
        config.model_type,
        prediction.name,
        number_of_tokens(model),
        longest_sentence(model),
        asked.length,
        str(asked.precision).removeprefix("torch."),
        counted,
        process,
        process + counted.peak_bytes,
        seconds,
        why,
    )


def _resident_bytes() -> int:
    """The memory that this process holds now; 0 where the system does not say."""
    statistics = Path("/proc/self/statm")
    return sysconf("SC_PAGE_SIZE") * int(statistics.read_text().split()[1]) if statistics.is_file() else 0


def _process_bytes() -> int:
    """The most memory that this process has held so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _keeps_freed_memory() -> bool:
    """Whether memory is that of the GNU C library."""
    return hasattr(ctypes.CDLL(None), "malloc_trim")


def _give_freed_memory_back() -> None:
    """Return what is freed to the system, as glibc otherwise does with large arrays only."""
    gc.collect()
    if _keeps_freed_memory():
        ctypes.CDLL(None).malloc_trim(0)


TOKENS_TIMED = 2048
"""About how many tokens the pass that is timed has at most: more are no faster each."""
_TURNS, ENOUGH_SECONDS = 3, 5.0
"""How often each pass is timed, unless once takes so long that noise is a small part of it."""
_FEW_LAYERS = "a model of few layers"
_LAYERS = ("num_hidden_layers", "num_decoder_layers", "decoder_layers")
"""What configurations call their number."""


def timed_layers(
    asked: Configured, whole: Counted, device: str, memory_bytes: int, progress: Progress = silent
) -> tuple[float | None, str]:
    """Seconds a sentence of the model whose passes are `whole`; or None, and why.

    The time of a pass through one layer, and what further layers add to it, multiplied by the ratio of the
    operations that all others add: what does not grow with the layers is counted once, however long it takes.
    """
    sentences = min(whole.at_once, max(1, TOKENS_TIMED // asked.length))

    def shallow(layers: int, done: int) -> tuple[Configured, Counted]:
        progress(TASK, done, PARTS, f"{layers} of its layers, without storage")
        small = replace(asked, name=_FEW_LAYERS, config=of_layers(asked.config, layers))
        return small, counted_passes(small, without_storage(small), sentences, sys.maxsize)

    try:
        compared = [shallow(1, 1)]
        one = compared[0][1]
        if (others := whole.operations - one.operations) > 0:
            # As much again as the first pass takes, so that noise in it is not multiplied.
            share = min(1.0, one.operations / others)
            compared.append(shallow(1 + math.ceil(share * (most_layers(asked.config) - 1)), 2))
        if max(of_few.peak_bytes for _, of_few in compared) > free_memory(torch.device(device)):
            return None, "the memory here does not hold a few of its layers"
        passes = [_Pass(small, sentences, device) for small, _ in compared]
        progress(TASK, PARTS - 1, PARTS, "timed")
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

    def __init__(self, asked: Configured, sentences: int, device: str) -> None:
        with quiet(), _DrawnInTiles():
            self.model = asked.build().to(device)
        self.objective = asked.prediction.objective
        self.batch = asked.batch(self.model, sentences).to(torch.device(device))

    def warm_up(self, memory_bytes: int) -> None:
        """Pass as many sentences as measurements do: one alone, all, and what is left over of a batch.

        By the sizes freed, the C library learns how much to keep rather than to return to the system.
        """
        at_once = len(self.batch)
        batches = (1, FIRST_SENTENCES % at_once, SENTENCES_A_BATCH % at_once, at_once)
        for sentences in dict.fromkeys(batches):
            if sentences:
                self._pass(self.batch.part(0, sentences), memory_bytes)

    def seconds(self, memory_bytes: int) -> float:
        """How long it takes, without what is done once for many passes."""
        begun = perf_counter()
        self._pass(self.batch, memory_bytes)
        return perf_counter() - begun

    def _pass(self, batch: Batch, memory_bytes: int) -> None:
        numbers, predictions = torch.arange(len(batch)), torch.bincount(batch.rows).cpu()

        def draw(logits: Tensor) -> Directions:
            return drawn_directions(logits, sign_bits(numbers, predictions, logits.shape[1], seed=0))

        norms = norms_along(self.model, self.objective, batch, draw, memory_bytes=memory_bytes)
        for values in norms.groups.values():
            values.cpu()  # waits for the device


class _DrawnInTiles(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Draws the first of a large tensor's random numbers and repeats them: passes take as long with these.

    To draw all the weights of a large layer would take longer than several passes.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        drawn = args[0] if func in _DRAWS else None
        if drawn is None or drawn.numel() <= TILE or not drawn.is_contiguous():
            return func(*args, **(kwargs or {}))
        tile, *tiles = drawn.view(-1).split(TILE)
        func(tile, *args[1:], **(kwargs or {}))
        for each in tiles:
            each.copy_(tile[: len(each)])
        return drawn


_DRAWS = (torch.ops.aten.normal_.default, torch.ops.aten.uniform_.default)
TILE = 1 << 20
"""Numbers, 4 MB in float32: fewer tiles would be copied no faster."""


def _fastest(passes: list[_Pass], memory_bytes: int) -> list[float]:
    """The shortest time of each, in turns."""
    for each in passes:
        each.warm_up(memory_bytes)
    turns: list[list[float]] = []
    while len(turns) < _TURNS and sum(map(sum, turns)) < ENOUGH_SECONDS:
        turns.append([each.seconds(memory_bytes) for each in passes])
    return [min(spent) for spent in zip(*turns, strict=True)]


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
    for name in _LAYERS:
        if isinstance(found := getattr(text, name, None), int):
            setattr(text, name, min(layers, found))
    return small


def most_layers(config: Any) -> int:
    """How many layers it has, or its decoder if that has more.

    >>> from transformers import T5Config
    >>> most_layers(T5Config(num_layers=2, num_decoder_layers=4))
    4
    """
    text = config.get_text_config()
    return max(found for name in _LAYERS if isinstance(found := getattr(text, name, None), int))
