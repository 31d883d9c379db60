"""The pre-LN transformer's training gradient in a few large operations, on a CPU and without autograd.

A training step of a small model spends much of its time on modules, autograd's nodes and copies, and on
torch's softmax, which is slow over rows of a dozen entries. Here forward and backward pass are written out.
Queries, keys and values are one product. In the last block, needed at one position of each sentence only,
there are neither keys nor values: with hidden states h and attention p, the score q·(W h) of a head is
(Wᵀq)·h, and its output Σ p (W h) is W Σ p h. Results equal those of `pre_layer_norm_states` up to rounding.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, embedding, nn
from transformers import RobertaPreLayerNormForMaskedLM
from transformers.activations import GELUActivation

from isoloss.models.fused_blocks import (
    Saved,
    block,
    block_backward,
    head,
    head_backward,
    last_block,
    last_block_backward,
    layer_norm_backward,
)
from isoloss.objectives.predicted_logits import states_at
from isoloss.objectives.tokens import PAD

AddGradient = Callable[[Float[Tensor, "n v"]], None]
"""Of a gradient with respect to scores: adds that with respect to each trained parameter to its `grad`."""

PARTS = (nn.Linear, nn.LayerNorm, nn.Embedding, nn.Dropout, nn.ModuleList, GELUActivation)
LAYOUT = "transformers.models.roberta_prelayernorm."
"""The classes of a model's parts, and where those of the layout come from."""


def can_be_fused(model: nn.Module) -> bool:
    """Whether there is a `FusedTransformer` of `model`: pre-LN, on a CPU, without dropout or hooks.

    Its attention must be "eager" ("sdpa" asks for torch's fused kernel), its activation GELU, and its parts
    those of `transformers` and torch, unchanged.

    >>> from isoloss.models.transformers import laptop_shape
    >>> from isoloss.models.transformers import PreLayerNormTransformer
    >>> architecture = PreLayerNormTransformer(laptop_shape(16), dropout=0.0, attention="eager")
    >>> can_be_fused(architecture.build(words=12, maximum_length=8, seed=0))
    True
    """
    if type(model) is not RobertaPreLayerNormForMaskedLM or states_at(model) is None:
        return False
    known: Any = model
    tables, config = known.base_model.embeddings, known.config
    usual: bool = config._attn_implementation == "eager" and config.hidden_act == "gelu"
    # Positions are counted without tokens of this number, whose embeddings are not trained.
    counted = {each.padding_idx for each in (tables, tables.word_embeddings, tables.position_embeddings)}
    plain = all(_is_plain(module, config.layer_norm_eps) for module in model.modules())
    return usual and counted == {PAD} and plain and all(map(_is_plain_parameter, model.parameters()))


def _is_plain(module: nn.Module, epsilon: float) -> bool:
    """Whether a module does what its class says, and nothing beside it."""
    forward, backward = module._forward_hooks, module._backward_hooks
    hooked = forward or backward or module._forward_pre_hooks or module._backward_pre_hooks
    known = type(module) in PARTS or type(module).__module__.startswith(LAYOUT)
    if hooked or "forward" in vars(module) or not known:
        return False
    match module:
        case nn.Dropout():
            return module.p == 0
        case nn.Embedding():
            return module.max_norm is None and not (module.scale_grad_by_freq or module.sparse)
        case nn.Linear():
            return module.bias is not None
        case nn.LayerNorm():
            return module.bias is not None and module.eps == epsilon
        case _:
            return True


def _is_plain_parameter(parameter: nn.Parameter) -> bool:
    hooked = parameter._backward_hooks or parameter._post_accumulate_grad_hooks
    # Fused optimisers read a parameter and its gradient as if their entries lay in the same order.
    return parameter.device.type == "cpu" and parameter.is_contiguous() and not hooked


class FusedTransformer:
    """Scores of a model that `can_be_fused`, and their gradient with respect to its parameters.

    Holds the model's parameters, which must stay its own. For the gradient a block of width d keeps some 20 d
    numbers a token and its attention.

    >>> from isoloss.models.transformers import laptop_shape
    >>> from isoloss.models.transformers import PreLayerNormTransformer
    >>> architecture = PreLayerNormTransformer(laptop_shape(16), dropout=0.0, attention="eager")
    >>> model = architecture.build(words=12, maximum_length=8, seed=0)
    >>> ids, positions = torch.tensor([[1, 2, 5], [1, 7, 2]]), torch.tensor([1, 2])
    >>> scores, add_gradient = FusedTransformer(model).scores(ids, None, positions)
    >>> torch.allclose(scores, model(input_ids=ids).logits[[0, 1], positions], atol=1e-6)
    True
    >>> add_gradient(torch.ones_like(scores))
    >>> all(parameter.grad is not None for parameter in model.parameters())
    True
    """

    def __init__(self, model: nn.Module) -> None:
        known: Any = model
        backbone, scoring = known.base_model, known.lm_head
        parts = backbone.embeddings
        # Found once: at every step it would take as long as a block's pass.
        self._words: Tensor = parts.word_embeddings.weight
        self._places: Tensor = parts.position_embeddings.weight
        self._segments: Tensor = parts.token_type_embeddings.weight
        self._norm = _parameters(parts.LayerNorm)
        *self._blocks, self._last = [_of_block(each) for each in backbone.encoder.layer]
        self._head = _parameters(backbone.LayerNorm, scoring.dense, scoring.layer_norm, scoring.decoder)
        self._heads: int = known.config.num_attention_heads
        self._epsilon: float = known.config.layer_norm_eps

    @torch.no_grad()
    def scores(
        self,
        input_ids: Int[Tensor, "n S"],
        attention_mask: Bool[Tensor, "n S"] | None,
        positions: Int[Tensor, " n"],
    ) -> tuple[Float[Tensor, "n v"], AddGradient]:
        """Scores of the v tokens at one position of each sentence, and what adds their gradient, once.

        `attention_mask` is None if no token is padding.
        """
        hidden = None if attention_mask is None else ~attention_mask
        places = None if hidden is None else (input_ids != PAD).cumsum(1).mul_(input_ids != PAD) + PAD
        settings = (self._heads, self._epsilon)
        states, of_embeddings = self._embedded(input_ids, places)
        of_blocks = []
        for parameters in self._blocks:
            states, saved = block(states, hidden, *settings, *parameters)
            of_blocks.append(saved)
        chosen, of_last = last_block(states, hidden, positions, *settings, *self._last)
        scores, of_head = head(chosen, self._epsilon, *self._head)

        return scores, partial(
            self._add_gradient, input_ids, places, of_embeddings, of_blocks, of_last, of_head
        )

    @torch.no_grad()
    def _add_gradient(
        self,
        ids: Int[Tensor, "n S"],
        places: Int[Tensor, "n S"] | None,
        of_embeddings: Saved,
        of_blocks: list[Saved],
        of_last: Saved,
        of_head: Saved,
        gradient: Float[Tensor, "n v"],
    ) -> None:
        of_chosen, of_parameters = head_backward(gradient, of_head)
        _add(self._head, of_parameters)
        of_states, of_parameters = last_block_backward(of_chosen, of_last)
        _add(self._last, of_parameters)
        for parameters in reversed(self._blocks):
            of_states, of_parameters = block_backward(of_states, self._heads, of_blocks.pop())
            _add(parameters, of_parameters)
        self._add_to_embeddings(of_states, ids, places, *of_embeddings)

    def _embedded(
        self, ids: Int[Tensor, "n S"], places: Int[Tensor, "n S"] | None
    ) -> tuple[Float[Tensor, "n S d"], Saved]:
        words = embedding(self._words, ids, PAD)
        if places is None:
            summed = words.add_(self._places[PAD + 1 : PAD + 1 + ids.shape[1]] + self._segments[0])
        else:
            summed = words.add_(self._segments[0]).add_(embedding(self._places, places, PAD))
        gain, shift = self._norm
        normed, *saved = torch.native_layer_norm(summed, summed.shape[2:], gain, shift, self._epsilon)
        return normed, (summed, *saved)

    def _add_to_embeddings(
        self,
        gradient: Float[Tensor, "n S d"],
        ids: Int[Tensor, "n S"],
        places: Int[Tensor, "n S"] | None,
        *saved: Tensor,
    ) -> None:
        of_sum, *of_norm = layer_norm_backward(gradient, *saved, *self._norm)
        if places is None:
            of_place = of_sum.sum(0)
            of_places, of_segments = torch.zeros_like(self._places), torch.zeros_like(self._segments)
            of_places[PAD + 1 : PAD + 1 + ids.shape[1]] = of_place
            of_segments[0] = of_place.sum(0)
        else:
            of_places = _of_embedding(of_sum, places, self._places)
            of_segments = _of_embedding(of_sum, torch.zeros_like(ids), self._segments, padding=-1)
        of_words = _of_embedding(of_sum, ids, self._words)
        _add((self._words, self._places, self._segments), (of_words, of_places, of_segments))
        _add(self._norm, of_norm)


def _parameters(*modules: Any) -> tuple[Tensor, ...]:
    """Weight and bias of each."""
    return tuple(tensor for module in modules for tensor in (module.weight, module.bias))


def _of_block(block: Any) -> tuple[Tensor, ...]:
    attention = block.attention
    inner = attention.self
    projections = (inner.query, inner.key, inner.value, attention.output.dense)
    feed_forward = (block.intermediate.LayerNorm, block.intermediate.dense, block.output.dense)
    return _parameters(attention.LayerNorm, *projections, *feed_forward)


def _add(parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
    for parameter, gradient in zip(parameters, gradients, strict=True):
        if not parameter.requires_grad:
            continue
        if parameter.grad is None:
            parameter.grad = gradient
        else:
            parameter.grad += gradient


def _of_embedding(
    gradient: Float[Tensor, "n S d"], ids: Int[Tensor, "n S"], table: Float[Tensor, "k d"], padding: int = PAD
) -> Float[Tensor, "k d"]:
    of_table: Tensor = torch.ops.aten.embedding_dense_backward.default(
        gradient, ids, len(table), padding, False
    )
    return of_table
