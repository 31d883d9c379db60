"""What one step of pre-training costs, found by taking it without numbers."""

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
from isoloss.models.transformers import Architecture
from isoloss.objectives.batch import Batch, PretrainingObjective
from isoloss.objectives.logits_at_predictions import logits_at_predictions
from isoloss.pretraining.update_rule import Training, UpdateRuleSettings


@dataclass(frozen=True)
class StepCost:
    """A step on one batch of the longest sentences.

    `operations` are those of the matrix products, forward, backward and in the optimiser; `parameters` how
    many numbers the model learns, tied ones once; `state_bytes` what the optimiser keeps; `kept_bytes` what
    a forward pass, of the batch or of a micro-batch, keeps for the backward pass, attention's matrices
    included, in float32; `width` that of the contextual vectors.
    """

    parameters: int
    operations: float
    state_bytes: int
    kept_bytes: int
    width: int

    @property
    def memory_bytes(self) -> int:
        """What a device needs at least: weights, gradients, the optimiser's state and what is kept."""
        return 2 * 4 * self.parameters + self.state_bytes + self.kept_bytes


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

    With `Compute.micro_batch` a step has the operations of the whole batch and keeps what one pass does. Of a
    rule that chooses the gradient itself it is its optimiser's plain step: SAM's costs as much, the
    adversary's more by its examples. The step is taken on torch's fake tensors, which have shapes and no
    memory: below a second, and a few at the paper's largest sizes.

    >>> from isoloss.models.shapes import TABLE_3
    >>> from isoloss.models.transformers import PreLayerNormTransformer
    >>> from isoloss.objectives.masked import MaskedObjective
    >>> from isoloss.pretraining.adamw import AdamW
    >>> smallest = PreLayerNormTransformer(TABLE_3[0])
    >>> cost = step_cost(smallest, AdamW(), MaskedObjective(), 4096, words=200, maximum_length=32)
    >>> cost.parameters, round(cost.state_bytes / cost.parameters), f"{cost.operations:.1e}"
    (69963, 8, '8.2e+09')
    """
    known: Any = _counted  # settings are frozen, hence hashable, which their protocols cannot say
    cost: StepCost = known(architecture, update_rule, objective, batch_size, words, maximum_length)
    if micro_batch is None or micro_batch >= batch_size:
        return cost
    one_pass: StepCost = known(architecture, update_rule, objective, micro_batch, words, maximum_length)
    return replace(cost, kept_bytes=one_pass.kept_bytes)


@cache
def _counted(
    architecture: Architecture,
    update_rule: UpdateRuleSettings,
    objective: PretrainingObjective,
    batch_size: int,
    words: int,
    maximum_length: int,
) -> StepCost:
    sentences = Sentences(
        torch.zeros(batch_size, maximum_length, dtype=torch.int64),
        torch.full((batch_size,), maximum_length),
    )
    drawn = objective.draw(sentences, torch.Generator().manual_seed(0))
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage.nbytes()
        return tensor

    # Attention in plain products: fused kernels are not counted everywhere.
    with FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True) as fake, sdpa_kernel(SDPBackend.MATH):
        model = architecture.build(words, maximum_length, seed=0).train()
        model.config.use_cache = False
        source = _NoSentences(words, maximum_length)
        training = Training(model, _Unpadded(), source, seed=0, steps=10**9, batch_size=batch_size)
        inner = getattr(update_rule, "optimiser", None)
        rule = (inner if isinstance(inner, UpdateRuleSettings) else update_rule).build(training)
        counter = FlopCounterMode(display=False, custom_mapping=_LSTM_OPERATIONS)
        with counter, saved_tensors_hooks(keep, lambda tensor: tensor):
            rule.step(Batch(*(fake.from_tensor(tensor) for tensor in vars(drawn).values())), 1)
    weights = {weight.untyped_storage()._cdata: weight for weight in model.parameters()}
    return StepCost(
        parameters=sum(weight.numel() for weight in weights.values()),
        operations=float(counter.get_total_flops()),
        state_bytes=sum(tensor.nbytes for tensor in _tensors(rule.state_dict())),
        kept_bytes=sum(size for storage, size in kept.items() if storage not in weights),
        width=model.config.hidden_size,
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


# On a processor an LSTM's layer is one operation, of which torch's counter knows nothing.
_LSTM_OPERATIONS = {
    torch.ops.aten.mkldnn_rnn_layer: _lstm_forward,
    torch.ops.aten.mkldnn_rnn_layer_backward: _lstm_backward,
}
