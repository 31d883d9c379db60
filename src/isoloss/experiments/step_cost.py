"""The cost of one pre-training step, determined by a dry run without data."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any, NoReturn

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from isoloss.languages.sentences import Sentences
from isoloss.models.transformers import Architecture, Shape
from isoloss.objectives.batch import Batch, PretrainingObjective
from isoloss.objectives.evaluation import logits_at_predictions
from isoloss.pretraining.update_rule import Training, UpdateRuleSettings


@dataclass(frozen=True)
class StepCost:
    """A step on one batch of the longest sentences.

    `operations` counts those of the matrix products, forward, backward and in the optimiser; `parameters` the
    model's parameters, with tied ones counted once; `state_bytes` the optimiser's state; `activation_bytes`
    what a forward pass, of the batch or of a micro-batch, stores for the backward pass in float32, including
    attention matrices; `width` is that of the contextual vectors.
    """

    parameters: int
    operations: float
    state_bytes: int
    activation_bytes: int
    width: int

    @property
    def memory_bytes(self) -> int:
        """The minimum device memory: weights, gradients, optimiser state and stored activations."""
        return 2 * 4 * self.parameters + self.state_bytes + self.activation_bytes


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
    same, the adversary more, because of its examples. The step is run on tensors that have shapes but no
    memory, and of identical layers only the first two are run.

    >>> from isoloss.models.transformers import TABLE_3
    >>> from isoloss.models.transformers import PreLayerNormTransformer
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

    def of_batch(size: int) -> StepCost:
        return _of_all_layers(
            architecture, lambda model: _counted(model, rule, predicted, size, words, maximum_length)
        )

    cost = of_batch(batch_size)
    if micro_batch is None or micro_batch >= batch_size:
        return cost
    return replace(cost, activation_bytes=of_batch(micro_batch).activation_bytes)


def _of_all_layers(architecture: Architecture, counted: Callable[[Any], StepCost]) -> StepCost:
    """A transformer's cost, from one and two layers: each further layer adds as much as the second."""
    shape = getattr(architecture, "shape", None)
    if not isinstance(shape, Shape) or shape.layers <= 2:
        return counted(architecture)
    model: Any = architecture
    one, two = (counted(replace(model, shape=replace(shape, layers=layers))) for layers in (1, 2))
    beyond = shape.layers - 2
    return StepCost(
        parameters=two.parameters + beyond * (two.parameters - one.parameters),
        operations=two.operations + beyond * (two.operations - one.operations),
        state_bytes=two.state_bytes + beyond * (two.state_bytes - one.state_bytes),
        activation_bytes=two.activation_bytes + beyond * (two.activation_bytes - one.activation_bytes),
        width=two.width,
    )


@cache
def _counted(
    architecture: Architecture,
    update_rule: UpdateRuleSettings,
    objective: PretrainingObjective,
    batch_size: int,
    words: int,
    maximum_length: int,
) -> StepCost:
    batch = _drawn(objective, batch_size, maximum_length)
    with _without_numbers() as placed:
        model = architecture.build(words, maximum_length, seed=0).train()
        model.config.use_cache = False
        source = _NoSentences(words, maximum_length)
        training = Training(model, _Unpadded(), source, seed=0, steps=10**9, batch_size=batch_size)
        rule = update_rule.build(training)
        counter, saved = _counting(lambda: rule.step(placed(batch), 1))
    state = sum(tensor.nbytes for tensor in _tensors(rule.state_dict()))
    return _cost(model, counter, state, saved)


def _plain(update_rule: UpdateRuleSettings) -> Any:
    """The rule, or the optimiser of one that computes the gradient itself, at a fixed rate without warm-up.

    Neither changes the cost, and so runs share results.
    """
    inner = getattr(update_rule, "optimiser", None)
    rule: Any = inner if isinstance(inner, UpdateRuleSettings) else update_rule
    rates = {"learning_rate": 1.0, "warm_up_steps": 0}
    return replace(rule, **{name: rate for name, rate in rates.items() if hasattr(rule, name)})


def _drawn(objective: PretrainingObjective, batch_size: int, maximum_length: int) -> Batch:
    sentences = Sentences(
        torch.zeros(batch_size, maximum_length, dtype=torch.int64),
        torch.full((batch_size,), maximum_length),
    )
    return objective.draw(sentences, torch.Generator().manual_seed(0))


@contextmanager
def _without_numbers() -> Iterator[Callable[[Batch], Batch]]:
    """Uses torch's fake tensors, which propagate only the shapes and types of CPU tensors.

    Attention is plain products: fused kernels are not counted everywhere.
    """
    with FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True) as fake, sdpa_kernel(SDPBackend.MATH):

        def placed(batch: Batch) -> Batch:
            there = {name: tensor for name, tensor in vars(batch).items() if tensor is not None}
            return Batch(**{name: fake.from_tensor(tensor) for name, tensor in there.items()})

        yield placed


def _counting(work: Callable[[], object]) -> tuple[FlopCounterMode, dict[int, int]]:
    """What `work` computes, and the bytes of each storage that it keeps for a backward pass."""
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage._cdata] = storage.nbytes()
        return tensor

    counter = FlopCounterMode(display=False, custom_mapping=_LSTM_OPERATIONS)
    with counter, saved_tensors_hooks(keep, lambda tensor: tensor):
        work()
    return counter, saved


def _cost(model: nn.Module, counter: FlopCounterMode, state_bytes: int, saved: dict[int, int]) -> StepCost:
    weights = {weight.untyped_storage()._cdata: weight for weight in model.parameters()}
    config: Any = model.config
    return StepCost(
        parameters=sum(weight.numel() for weight in weights.values()),
        operations=float(counter.get_total_flops()),
        state_bytes=state_bytes,
        activation_bytes=sum(size for storage, size in saved.items() if storage not in weights),
        width=config.hidden_size,
    )


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


def _lstm_forward(
    states: torch.Size, from_input: torch.Size, from_state: torch.Size, *_: Any, **_settings: Any
) -> int:
    """A layer in one direction: states are [S, n, d], and each token meets both matrices."""
    return 2 * states[0] * states[1] * (prod(from_input) + prod(from_state))


def _lstm_backward(*shapes: Any, **settings: Any) -> int:
    return 2 * _lstm_forward(*shapes, **settings)


# On a processor, an LSTM layer is a single operation, which torch's counter does not know.
_LSTM_OPERATIONS = {
    torch.ops.aten.mkldnn_rnn_layer: _lstm_forward,
    torch.ops.aten.mkldnn_rnn_layer_backward: _lstm_backward,
}
