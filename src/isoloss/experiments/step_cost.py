"""The cost of one pre-training step, determined by a dry run without data."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cache
from math import prod
from typing import Any, NoReturn

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import flop_registry
from transformers import PreTrainedModel

from isoloss.languages.sentences import Sentences
from isoloss.measurements.counted_passes import ProductOperations
from isoloss.models.lstm import LSTM
from isoloss.models.transformers import Architecture, Shape
from isoloss.objectives.batch import Batch, PretrainingObjective
from isoloss.objectives.predicted_logits import logits_at_predictions
from isoloss.pretraining.update_rule import Training, UpdateRuleSettings


@dataclass(frozen=True)
class StepCost:
    """A step on one batch of the longest sentences.

    `operations` counts those of the matrix products, forward, backward and in the optimiser; `parameters` the
    model's parameters, with tied ones counted once; `state_bytes` the optimiser's state; `activation_bytes`
    what a forward pass, of the batch or of a micro-batch, stores for the backward pass in float32, including
    attention matrices and, of an LSTM, its gates and cells; its kernels have more of their own, on a
    processor three to five times as much.
    """

    parameters: int
    operations: float
    state_bytes: int
    activation_bytes: int

    @property
    def memory_bytes(self) -> int:
        """The minimum device memory: weights, gradients, optimiser state and stored activations."""
        return 2 * 4 * self.parameters + self.state_bytes + self.activation_bytes


SENTENCES = (1009, 1013, 1019, 1021)
"""How many the step that is counted may have: prime numbers, of one of which no size of the model is a
multiple. Counts that are multiples of it therefore grow with the batch, and all others do not."""


_Counts = Int[np.ndarray, "4 2"]
"""Parameters, operations, and bytes of state and of activations: what a step takes whatever its batch, and
for each of its sentences."""


def step_cost(
    architecture: Architecture,
    update_rule: UpdateRuleSettings,
    objective: PretrainingObjective,
    batch_size: int,
    words: int,
    maximum_length: int,
    micro_batch: int | None = None,
) -> StepCost:
    """The cost of a step of this architecture and rule, on sentences of `maximum_length` of `words` words.

    With `Compute.micro_batch`, a step has the operations of the whole batch and keeps what a single pass
    does. For a rule that computes the gradient itself, this is its optimiser's plain step: SAM costs the
    same, the adversary more, because of its examples. A single step is run for batches of all sizes, on
    tensors that have shapes but no memory, and of identical layers only the first two are run.

    >>> from isoloss.models.transformers import TABLE_3, PreLayerNormTransformer
    >>> from isoloss.objectives.masked import MaskedObjective
    >>> from isoloss.pretraining.descent import AdamW
    >>> smallest = PreLayerNormTransformer(TABLE_3[0])
    >>> cost = step_cost(smallest, AdamW(), MaskedObjective(), 4096, words=200, maximum_length=32)
    >>> cost.parameters, round(cost.state_bytes / cost.parameters), f"{cost.operations:.1e}"
    (69963, 8, '8.2e+09')
    """
    rule = _plain(update_rule)
    # Settings are frozen and hence hashable, which their protocols cannot tell the cache.
    predicted: Any = objective
    step = _of_all_layers(architecture, lambda model: _counted(model, rule, predicted, words, maximum_length))
    at_once = batch_size if micro_batch is None else min(micro_batch, batch_size)
    parameters, operations, state_bytes, _ = (step @ (1, batch_size)).tolist()
    *_, activation_bytes = (step @ (1, at_once)).tolist()
    return StepCost(parameters, float(operations), state_bytes, activation_bytes)


def _of_all_layers(architecture: Architecture, counted: Callable[[Any], _Counts]) -> _Counts:
    """From one and two layers: each further layer adds as much as the second."""
    shape = getattr(architecture, "shape", None)
    if isinstance(architecture, LSTM):
        layers, few = architecture.layers, [replace(architecture, layers=number) for number in (1, 2)]
    elif isinstance(shape, Shape):
        model: Any = architecture
        layers = shape.layers
        few = [replace(model, shape=replace(shape, layers=number)) for number in (1, 2)]
    else:
        return counted(architecture)
    if layers <= 2:
        return counted(architecture)
    one, two = map(counted, few)
    counts: _Counts = two + (layers - 2) * (two - one)
    return counts


def _plain(update_rule: UpdateRuleSettings) -> Any:
    """The rule, or the optimiser of one that computes the gradient itself, with its default numbers.

    Numbers do not change the cost unless they are zero, so that runs share results.
    """
    inner = getattr(update_rule, "optimiser", None)
    rule: Any = inner if isinstance(inner, UpdateRuleSettings) else update_rule
    usual = {each.name: each.default for each in fields(rule) if isinstance(each.default, float)}
    usual = {name: number for name, number in usual.items() if bool(getattr(rule, name)) == bool(number)}
    return replace(rule, **usual, **({"warm_up_steps": 0} if hasattr(rule, "warm_up_steps") else {}))


@cache
def _counted(
    architecture: Architecture,
    update_rule: UpdateRuleSettings,
    objective: PretrainingObjective,
    words: int,
    maximum_length: int,
) -> _Counts:
    with torch.device("meta"):
        model = architecture.build(words, maximum_length, seed=0)
    sizes = {maximum_length, *(size for weight in model.parameters() for size in weight.shape)}
    number = next(prime for prime in SENTENCES if all(size % prime for size in sizes))
    batch = _drawn(objective, number, maximum_length)
    # Without memory, torch loops over an LSTM's words, and knows no shape of what some operations return:
    # a pretended processor, which is slower, has kernels for both.
    if not any(isinstance(part, nn.RNNBase) for part in model.modules()):
        with suppress(RuntimeError):
            return _of_step(model, update_rule, batch.to(torch.device("meta")), words, maximum_length)
    with FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True) as fake:
        there = {name: tensor for name, tensor in vars(batch).items() if tensor is not None}
        batch = Batch(**{name: fake.from_tensor(tensor) for name, tensor in there.items()})
        model = architecture.build(words, maximum_length, seed=0)
        return _of_step(model, update_rule, batch, words, maximum_length)


def _drawn(objective: PretrainingObjective, number: int, maximum_length: int) -> Batch:
    sentences = Sentences(
        torch.zeros(number, maximum_length, dtype=torch.int64), torch.full((number,), maximum_length)
    )
    return objective.draw(sentences, torch.Generator().manual_seed(0))


def _of_step(
    model: PreTrainedModel, settings: UpdateRuleSettings, batch: Batch, words: int, maximum_length: int
) -> _Counts:
    model.train()
    model.config.use_cache = False
    source = _NoSentences(words, maximum_length)
    rule: Any = settings.build(Training(model, _Unpadded(), source, 0, steps=10**9, batch_size=len(batch)))
    if batch.input_ids.is_meta and hasattr(rule, "descent"):
        for group in (group for optimiser in rule.descent.optimisers for group in optimiser.param_groups):
            if group.get("fused"):
                group |= {"fused": False, "foreach": True}  # fused kernels need a device with memory
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage._cdata] = storage.nbytes()
        return tensor

    counting = ProductOperations(_OPERATIONS)
    # Attention is plain products: fused kernels are not counted everywhere.
    with sdpa_kernel(SDPBackend.MATH), counting, saved_tensors_hooks(keep, lambda tensor: tensor):
        rule.step(batch, 1)
    weights = {weight.untyped_storage()._cdata: weight for weight in model.parameters()}
    stored = [size for storage, size in saved.items() if storage not in weights]
    stored += [batch.input_ids.numel() * each for each in _gates_and_cells(model)]
    parameters = sum(weight.numel() for weight in weights.values())
    state_bytes = sum(tensor.nbytes for tensor in _tensors(rule.state_dict()))
    products, activations = (_by_growth(each, len(batch)) for each in (counting.of_products, stored))
    return np.array([(parameters, 0), products, (state_bytes, 0), activations])


def _by_growth(counts: Iterable[int], sentences: int) -> tuple[int, int]:
    """The sum of what was counted in a step of a number of `SENTENCES`, and for each of them what grows."""
    always, growing = 0, 0
    for count in counts:
        if count % sentences:
            always += count
        else:
            growing += count // sentences
    return always, growing


def _gates_and_cells(model: nn.Module) -> Iterator[int]:
    """Bytes that each LSTM stores of a token: pretended kernels do not say how large their workspace is."""
    for part in model.modules():
        if isinstance(part, nn.LSTM):
            yield 4 * 5 * part.num_layers * (1 + part.bidirectional) * part.hidden_size


class _Unpadded:
    """An `Objective`: scores of whole sentences, without a look at the mask, which has no numbers here."""

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        return logits_at_predictions(model, batch)


@dataclass(frozen=True)
class _NoSentences:
    """A `SentenceSource` that has none to draw, as its type says; a rule that takes one step draws nothing.

    Fake tensors could not name its content.
    """

    words: int
    maximum_length: int
    digest: str = "none"

    @property
    def vocabulary(self) -> tuple[str, ...]:
        return tuple(str(word) for word in range(self.words))

    def sample(self, n: int, generator: torch.Generator) -> NoReturn:
        raise TypeError(f"a step's cost is of no particular sentences: {n} cannot be drawn with {generator}")


def _tensors(state: Any) -> list[Tensor]:
    if isinstance(state, Tensor):
        return [state]
    inner = state.values() if isinstance(state, dict) else state if isinstance(state, list | tuple) else ()
    return [tensor for value in inner for tensor in _tensors(value)]


def _lstm_forward(states: Tensor, from_input: Tensor, from_state: Tensor, *_: Any, **_settings: Any) -> int:
    """A layer in one direction: states are [S, n, d], and each token meets both matrices."""
    return 2 * prod(states.shape[:2]) * (from_input.numel() + from_state.numel())


def _lstm_backward(*shapes: Any, **settings: Any) -> int:
    return 2 * _lstm_forward(*shapes, **settings)


# On a processor, an LSTM layer is a single operation, which torch does not count.
_OPERATIONS: dict[Any, Callable[..., int]] = {
    **flop_registry,
    torch.ops.aten.mkldnn_rnn_layer: _lstm_forward,
    torch.ops.aten.mkldnn_rnn_layer_backward: _lstm_backward,
}
