"""The memory and operations of a model's passes, counted as they are done, on tensors without storage too."""

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry
from transformers import PreTrainedModel

from isoloss.curvature.per_sentence.directions import Directions, drawn_directions
from isoloss.curvature.per_sentence.norms import norms_along
from isoloss.curvature.per_sentence.traces import sentences_at_once
from isoloss.device import Heap
from isoloss.errors import BadInput
from isoloss.measurements.models_on_text import build_predicting
from isoloss.measurements.prediction import Prediction
from isoloss.measurements.sampled_batches import random_batch
from isoloss.models.hub import quiet, refusing, sized_as_published
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.evaluation import a_gradient_at_a_time, evaluation_mode


class LiveMemory(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within the block, follows what is alive, on any thread: `bytes` now, and at most `peak` so far.

    Counts the storages of `alive`, and of the result of every operation, once each, until the last tensor
    that views one is freed. What an operation takes and frees within itself is not seen. A `heap` is
    informed of all but `alive`.

    >>> import torch
    >>> weight = torch.zeros(100)
    >>> with LiveMemory([weight]) as memory:
    ...     first = weight + 1
    ...     del first
    ...     second = weight[:50] * 2
    >>> memory.peak, memory.bytes
    (800, 600)
    """

    def __init__(self, alive: Iterable[Tensor] = (), heap: Heap | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = self.peak = 0
        self._storages: dict[int, weakref.ref[Any]] = {}
        self._heap = None
        for tensor in alive:
            self._meet(tensor)
        self._heap = heap

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for each in tree_leaves(result):
            if isinstance(each, Tensor):
                self._meet(each)
        return result

    def _meet(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        place, size = storage._cdata, storage.nbytes()
        if place in self._storages:
            return

        in_heap = None if self._heap is None else self._heap.allocate(size)

        def free(_: Any) -> None:
            del self._storages[place]
            self.bytes -= size
            if self._heap is not None and in_heap is not None:
                self._heap.free(in_heap)

        self._storages[place] = weakref.ref(storage, free)
        self.bytes += size
        self.peak = max(self.peak, self.bytes)


class ProductOperations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within the block, counts the `operations` of matrix products, forward and backward, by `formulas`.

    torch's FlopCounterMode also follows modules, by hooks that stand in the way of `torch.autograd.grad`
    where a weight is what a module is given, as positions' vectors are in DeBERTa.

    >>> import torch
    >>> with ProductOperations() as counted:
    ...     product = torch.ones(2, 3) @ torch.ones(3, 4)
    >>> counted.operations
    48
    """

    def __init__(self, formulas: Mapping[Any, Callable[..., int]] = flop_registry) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.of_products: list[int] = []
        self._formulas = formulas

    @property
    def operations(self) -> int:
        """Those of all products together."""
        return sum(self.of_products)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        count = self._formulas.get(func._overloadpacket)
        if count is not None:
            self.of_products.append(count(*args, **(kwargs or {}), out_val=result))
        return result


@dataclass(frozen=True)
class Counted:
    """What the trace of a model of `parameters` numbers takes, which are `bytes_of_weights`.

    `at_once` is how many sentences share a pass. `bytes_of_pass` is the most that is alive in it at any time,
    and `bytes_of_gradients` in the pass before, over one sentence, in which every gradient is looked at; both
    with the weights. `bytes_kept` is what the GNU C library holds beside that of arrays that were freed.
    `operations` are those of a pass's products, forward and backward, for each of its sentences.
    """

    parameters: int
    bytes_of_weights: int
    at_once: int
    bytes_of_pass: int
    bytes_of_gradients: int
    bytes_kept: int
    operations: float

    @property
    def peak_bytes(self) -> int:
        """The most memory of tensors at any time."""
        return max(self.bytes_of_pass, self.bytes_of_gradients)


@dataclass(frozen=True)
class Configured:
    """A model of which the configuration is known, and the tokens of the sentences that it is to read."""

    name: str
    config: Any
    prediction: Prediction
    precision: torch.dtype
    length: int

    def build(self) -> PreTrainedModel:
        """With new weights."""
        return build_predicting(self.config, self.prediction, self.precision)

    def batch(self, model: PreTrainedModel, sentences: int) -> Batch:
        """Random sentences of that length for the model."""
        return random_batch(model, self.prediction, (self.length,) * sentences)


def without_storage(asked: Configured) -> PreTrainedModel:
    """The model, of tensors without storage."""
    with (
        refusing("language model", asked.name),
        quiet(),
        sized_as_published(Path(asked.name)),
        FakeTensorMode(allow_non_fake_inputs=True),
    ):
        try:
            model = asked.build()
        except DataDependentOutputException:  # ModernBERT's first weights are drawn by what some numbers are
            with _without_first_weights():
                model = asked.build()
    give_indices_values(model)
    return model


@contextmanager
def _without_first_weights() -> Iterator[None]:
    initialise = PreTrainedModel.initialize_weights
    PreTrainedModel.initialize_weights = lambda _: None
    try:
        yield
    finally:
        PreTrainedModel.initialize_weights = initialise


def give_indices_values(model: PreTrainedModel) -> None:
    """Replace buffers of whole numbers, such as positions, by zeros: tables are looked up by their values."""
    for module in model.modules():
        for name, buffer in module._buffers.items():
            if buffer is not None and buffer.dtype == torch.int64:
                module._buffers[name] = torch.zeros(buffer.shape, dtype=torch.int64)


def counted_passes(asked: Configured, model: PreTrainedModel, sentences: int, memory_bytes: int) -> Counted:
    """The passes over a batch of so many sentences, carried out on a `model` `without_storage`."""
    try:
        with refusing("language model", asked.name), quiet():
            batch = asked.batch(model, sentences)
            return count_passes(model, asked.prediction.objective, batch, memory_bytes)
    except BadInput as error:
        why = type(error.__cause__).__name__
        if not why.startswith(("DataDependent", "DynamicOutputShape")):
            raise
        raise BadInput(
            f"the forward pass of {asked.name} depends on the values of its weights, or of the tokens that "
            "it reads, so that its configuration does not tell its cost; run isoloss inspect on its whole "
            "folder, without --for"
        ) from error


def count_passes(model: PreTrainedModel, objective: Objective, batch: Batch, memory_bytes: int) -> Counted:
    """Count what the trace of a model without storage takes on the batch, whose sentences are equally long.

    The passes are those of `refuse_without_gradient` and of `sentence_fisher_traces`, without what they do
    with values.
    """
    of_model, heap = [*model.parameters(), *model.buffers()], Heap()
    sentence = batch.part(0, 1)
    with LiveMemory(of_model, heap) as memory, evaluation_mode(model), torch.enable_grad():
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

    with LiveMemory(of_model, heap) as memory, ProductOperations() as counter:
        norms_along(model, objective, piece, draw, memory_bytes=memory_bytes)
    weights = sum(each.numel() * each.element_size() for each in of_model)
    return Counted(
        sum(each.numel() for each in model.parameters()),
        weights,
        at_once,
        memory.peak,
        of_gradients,
        max(0, weights + heap.peak - max(memory.peak, of_gradients)),
        counter.operations / at_once,
    )
