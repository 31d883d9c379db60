"""A model's parameters with the weights of one output number in a row, however they are stored."""

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from isoloss.curvature.derivatives import trainable_parameters

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
