"""A model's parameters laid out: an output number's weights in a row, and by units.

Units are the sets of weights on which the changes of weights that leave a network's function act by a matrix.
"""

import math
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._pytree import tree_leaves

from isoloss.curvature.derivatives import is_norm, trainable_parameters
from isoloss.errors import BadInput

_STORED_BY_INPUT = {
    "Conv1D": ("weight",),
    "FunnelRelMultiheadAttention": ("r_kernel",),
    "GroupedLinearLayer": ("weight",),
    "Inkling2RelativeLogits": ("proj",),
    "InklingRelativeLogits": ("proj",),
    "Llama4TextExperts": ("gate_up_proj", "down_proj"),
    "RecurrentGemmaRglru": ("input_gate_weight", "recurrent_gate_weight"),
    "XLNetRelativeAttention": ("q", "k", "v", "r"),
}
"""Parameters that have the weights of one input number in a row, by the type of their module."""
_HEADS_APART = ("FunnelRelMultiheadAttention", "XLNetRelativeAttention")
"""Types of modules whose matrices have a dimension for the heads, and one for the numbers within a head."""
_CONVOLUTIONS = nn.Conv1d | nn.Conv2d | nn.Conv3d
_ATTENTION = re.compile("attention$", re.IGNORECASE)
_USED_WITHOUT_A_CALL = {"XLNetRelativeAttention": "o", "MultiheadAttention": "out_proj.weight"}
"""What reads the heads of attentions that call no module for it, by their type."""


@dataclass(frozen=True)
class OutputRows:
    """A parameter and how it is laid out: stored as `weight`, viewed in `shape`, and then perhaps turned.

    `row_is_unit` where what belongs together is a row and not a column, as of a table of embeddings.
    """

    name: str
    weight: Tensor
    shape: tuple[int, ...]
    turned: bool = False
    row_is_unit: bool = False

    @property
    def rows(self) -> Tensor:
        """The parameter, with the weights of one output number in a row; vectors have one dimension."""
        return self.of(self.weight)

    def of(self, stored: Tensor) -> Tensor:
        """Tensors of the parameter's shape, in a batch or not, laid out so."""
        batch = stored.shape[: stored.ndim - self.weight.ndim]
        viewed = stored.reshape(*batch, *self.shape)
        return viewed.mT if self.turned else viewed

    def stored(self, rows: Tensor) -> Tensor:
        """What is laid out so, in the parameter's shape."""
        return (rows.mT if self.turned else rows).reshape(self.weight.shape)


def output_rows(model: nn.Module) -> list[OutputRows]:
    """All trainable parameters. The biases of experts, and a vector stored as a matrix, are one vector.

    A convolution of several groups is a matrix for each, since they read different numbers.

    >>> convolution = nn.Conv1d(in_channels=6, out_channels=4, kernel_size=3)
    >>> [tuple(each.rows.shape) for each in output_rows(convolution)]
    [(4, 18), (4,)]
    """
    modules = dict(model.named_modules())
    found = []
    for name, parameter in trainable_parameters(model).items():
        prefix, _, last = name.rpartition(".")
        found.append(_laid_out(name, parameter.detach(), modules[prefix], last))
    return found


def _laid_out(name: str, weight: Tensor, module: Any, last: str) -> OutputRows:
    kind, shape = type(module).__name__, tuple(weight.shape)
    if last.endswith("bias") or weight.ndim == 0 or (weight.ndim > 2 and weight.numel() == max(shape)):
        return OutputRows(name, weight, (weight.numel(),))
    if isinstance(module, _CONVOLUTIONS) and module.groups > 1:
        shape = (module.groups, shape[0] // module.groups, math.prod(shape[1:]))
    elif isinstance(module, _CONVOLUTIONS) or (kind in _HEADS_APART and len(shape) == 3):
        shape = (shape[0], math.prod(shape[1:]))
    if kind == "DbrxExpertGLU" and last == "w2":
        of_expert = (module.moe_num_experts, module.ffn_hidden_size, module.hidden_size)
        return OutputRows(name, weight, of_expert, turned=True)
    by_input = last in _STORED_BY_INPUT.get(kind, ())
    experts = len(shape) == 3 and getattr(module, "is_transposed", False)
    # I-BERT's embedding is none of torch's, and Perceiver keeps latent vectors and positions as they are.
    is_table = isinstance(module, nn.Embedding) or kind.endswith(
        ("Embedding", "Embeddings", "PositionEncoding")
    )
    return OutputRows(name, weight, shape, by_input or experts, is_table)


def unit_products(each: OutputRows, gradients: Float[Tensor, "k ..."]) -> Float[Tensor, "k u"]:
    """⟨w_u, g_u⟩ of a parameter's units, of k gradients of its shape, laid out as `units_of` has it.

    - A matrix that maps: what reads one input number, a column. Invariant under any invertible matrix that
      acts on its outputs (rotations of heads), and under factors on its inputs (gains, neurons).
    - The output map of attention heads, and a table of embeddings: a row; the changes act on its inputs.
    - A norm's gain: each number. Any other vector, a bias: the whole of it.
    """
    products = each.rows.double() * each.of(gradients).double()
    if each.rows.ndim > 1:
        return products.sum(-1 if each.row_is_unit else -2).flatten(1)
    return products if _is_gain(each) else products.flatten(1).sum(1, keepdim=True)


def _is_gain(each: OutputRows) -> bool:
    return each.rows.ndim == 1 and is_norm(each.name) and each.name.endswith(".weight")


@torch.no_grad()
def units_of(model: nn.Module, forward: Callable[[], object]) -> list[OutputRows]:
    """All trainable parameters, laid out by units; `forward` passes a sentence through the model.

    The units of a map that reads attention heads are its rows, and a norm that multiplies by 1 + w, as
    Gemma's, has units of 1 + w. Both are seen in the pass, whatever they are called. Raises BadInput for an
    attention of which nothing is seen to read the heads, inside or right after it.
    """
    found = output_rows(model)
    modules = dict(model.named_modules())
    norms = {each.name: modules[each.name.rpartition(".")[0]] for each in found if _is_gain(each)}
    seen, maps = _Seen(), dict(_maps(model, ""))
    with ExitStack() as hooks:
        for name, norm in norms.items():
            hooks.enter_context(norm.register_forward_pre_hook(seen.norm(name), with_kwargs=True))
        for name, attention in _trained_attentions(model):
            for weight, module in _maps(attention, name):
                hooks.enter_context(module.register_forward_pre_hook(seen.map(weight)))
                maps.pop(weight, None)
            hooks.enter_context(attention.register_forward_hook(seen.end_of_attention(name)))
        for weight, module in maps.items():
            hooks.enter_context(module.register_forward_pre_hook(seen.map_outside(weight)))
        forward()
    for refusal in seen.unread.values():
        raise refusal
    for at, each in enumerate(found):
        # Any matrix may act between the two of LoRA's.
        if each.name in seen.readers or ".lora_B." in each.name:
            found[at] = replace(each, row_is_unit=True)
        elif each.name in seen.norms and _adds_one(norms[each.name], *seen.norms[each.name]):
            found[at] = replace(each, weight=each.weight + 1)
    return found


def _trained_attentions(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules whose type is called an attention, but for those inside of others, by name."""
    outer = None
    for name, module in model.named_modules():
        if outer is not None and name.startswith(f"{outer}."):
            continue
        trained = any(each.requires_grad for each in module.parameters())
        if trained and _ATTENTION.search(type(module).__name__):
            outer = name
            yield name, module


def _maps(module: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Module]]:
    """The modules with a matrix or a table, by its name."""
    for name, inner in module.named_modules(prefix=prefix):
        if isinstance(weight := getattr(inner, "weight", None), Tensor) and weight.ndim > 1:
            yield f"{name}.weight", inner


@dataclass
class _Seen:
    """What hooks note in a pass, by names of weights: `readers` of heads, and the arguments of `norms`.

    `unread` are the refusals of attentions that call no map for their heads, until one reads what they give.
    """

    readers: set[str] = field(default_factory=set)
    norms: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    called: list[tuple[str, Tensor]] = field(default_factory=list)
    """The maps that the present attention has called, and what they read."""
    unread: dict[str, BadInput] = field(default_factory=dict)
    given: list[tuple[str, Tensor]] = field(default_factory=list)
    """What those attentions gave, kept so that nothing else takes its place in memory."""

    def norm(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        return lambda _, arguments, options: self.norms.update({name: (arguments, options)})

    def map(self, name: str) -> Callable[[nn.Module, Any], None]:
        return lambda _, arguments: self.called.append((name, arguments[0]))

    def map_outside(self, name: str) -> Callable[[nn.Module, Any], None]:
        def called(_: nn.Module, arguments: Any) -> None:
            for attention, given in self.given:
                if any(isinstance(each, Tensor) and _one_storage(each, given) for each in arguments[:1]):
                    self.readers.add(name)
                    self.unread.pop(attention, None)

        return called

    def end_of_attention(self, name: str) -> Callable[[nn.Module, Any, Any], None]:
        def ended(attention: nn.Module, _: Any, output: Any) -> None:
            try:
                self.readers.add(_reader_of_heads(name, attention, self.called))
            except BadInput as refusal:
                self.unread[name] = refusal
                self.given += [(name, each) for each in tree_leaves(output) if isinstance(each, Tensor)]
            self.called.clear()

        return ended


def _one_storage(first: Tensor, second: Tensor) -> bool:
    return first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


def _reader_of_heads(name: str, attention: nn.Module, called: list[tuple[str, Tensor]]) -> str:
    """The map that was called last, if no other one read the same numbers."""
    kind = type(attention).__name__
    if not called and kind in _USED_WITHOUT_A_CALL:
        return f"{name}.{_USED_WITHOUT_A_CALL[kind]}"
    read = [each.untyped_storage().data_ptr() for _, each in called]
    if len(called) < 2 or read[-1] in read[:-1]:
        raise BadInput(
            f"unit_trace cannot tell what reads the heads of {name} ({kind}), and would depend on more than "
            "the model's function; leave it out, or measure normalised_trace"
        )
    return called[-1][0]


def _adds_one(norm: nn.Module, arguments: Any, options: Any) -> bool:
    """Whether the norm gives anything but 0 where its parameters are 0."""
    zeros = {name: torch.zeros_like(each) for name, each in norm.named_parameters()}
    given = functional_call(norm, zeros, arguments, options)
    return bool((given[0] if isinstance(given, tuple) else given).any())
