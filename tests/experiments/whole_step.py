"""The oracle of `step_cost`: a step of all layers and the whole batch, which torch's own counter counts."""

from dataclasses import replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from isoloss.experiments.step_cost import StepCost, _NoSentences
from isoloss.languages.sentences import Sentences
from isoloss.models.transformers import Architecture
from isoloss.objectives.batch import Batch, PretrainingObjective
from isoloss.objectives.predicted_logits import logits_at_predictions
from isoloss.pretraining.update_rule import Training, UpdateRuleSettings


class Unpadded:
    def logits(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        return logits_at_predictions(model, batch)


def whole_step(
    architecture: Architecture,
    update_rule: UpdateRuleSettings,
    objective: PretrainingObjective,
    batch_size: int,
    words: int,
    longest: int,
    micro_batch: int | None = None,
) -> StepCost:
    """On fake tensors, which know the kernels of a processor."""
    sentences = Sentences(torch.zeros(batch_size, longest).long(), torch.full((batch_size,), longest))
    batch = objective.draw(sentences, torch.Generator().manual_seed(0))
    saved: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        saved[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
        return tensor

    source, optimiser = _NoSentences(words, longest), getattr(update_rule, "optimiser", None)
    plain: Any = optimiser if isinstance(optimiser, UpdateRuleSettings) else update_rule
    counter = FlopCounterMode(display=False, custom_mapping=LSTM_OPERATIONS)
    with FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True) as fake, sdpa_kernel(SDPBackend.MATH):
        there = {name: tensor for name, tensor in vars(batch).items() if tensor is not None}
        placed = Batch(**{name: fake.from_tensor(tensor) for name, tensor in there.items()})
        model: Any = architecture.build(words, longest, seed=0).train()
        model.config.use_cache = False
        rule = plain.build(Training(model, Unpadded(), source, 0, steps=10**9, batch_size=batch_size))
        with counter, saved_tensors_hooks(keep, lambda tensor: tensor):
            rule.step(placed, 1)
    weights = {weight.untyped_storage()._cdata: weight for weight in model.parameters()}
    cost = StepCost(
        parameters=sum(weight.numel() for weight in weights.values()),
        operations=float(counter.get_total_flops()),
        state_bytes=sum(tensor.nbytes for tensor in tensors(rule.state_dict())),
        activation_bytes=sum(size for storage, size in saved.items() if storage not in weights)
        + 4 * GATES_AND_CELLS * units_of_lstms(model) * placed.input_ids.numel(),
    )
    if micro_batch is None or micro_batch >= batch_size:
        return cost
    part = whole_step(architecture, update_rule, objective, micro_batch, words, longest)
    return replace(cost, activation_bytes=part.activation_bytes)


GATES_AND_CELLS = 5


def units_of_lstms(model: torch.nn.Module) -> int:
    """A bias of each of four gates, from the input and from the state, has one number a unit."""
    biases = (weight for name, weight in model.named_parameters() if ".bias_ih_l" in name)
    return sum(bias.numel() // 4 for bias in biases)


def tensors(state: Any) -> list[torch.Tensor]:
    if isinstance(state, torch.Tensor):
        return [state]
    inner = state.values() if isinstance(state, dict) else state if isinstance(state, list | tuple) else ()
    return [tensor for value in inner for tensor in tensors(value)]


def lstm_layer(states: Any, from_input: Any, from_state: Any, *_: Any, **_settings: Any) -> int:
    tokens = states[0] * states[1]
    return 2 * tokens * (from_input[0] * from_input[1] + from_state[0] * from_state[1])


LSTM_OPERATIONS = {
    torch.ops.aten.mkldnn_rnn_layer: lstm_layer,
    torch.ops.aten.mkldnn_rnn_layer_backward: lambda *shapes, **settings: 2 * lstm_layer(*shapes),
}
