"""A stack of LSTM layers that read a sentence both ways, by torch's kernels and in plain operations."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence


class BidirectionalLSTM(nn.Module):
    """`layers` layers of torch's LSTM, `width` / 2 units in each direction (Hochreiter and Schmidhuber 1997).

    Each is a residual: x ← x + dropout(LSTM(norm(x))), and a last norm follows them all (Xiong et al. 2020);
    without residuals stacks as deep as the paper's 16 layers hardly train. Each layer reads both directions
    of the layer below, so every vector depends on the whole sentence. Sentences are read without their
    padding, which changes nothing. Weights start uniform in ±1/√units, as torch has them, gains as 1.
    """

    def __init__(self, width: int, layers: int, dropout: float, layer_norm_epsilon: float) -> None:
        super().__init__()
        self.lstms = nn.ModuleList(
            nn.LSTM(width, width // 2, batch_first=True, bidirectional=True) for _ in range(layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width, layer_norm_epsilon) for _ in range(layers))
        self.last_norm = nn.LayerNorm(width, layer_norm_epsilon)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "n S d"], present: Bool[Tensor, "n S"] | None
    ) -> Float[Tensor, "n S d"]:
        """The last layer's vectors, zero on padding; `present` (None: everywhere) is true on real tokens."""
        # Private, but there is no other way to know: torch's kernels cannot be mapped over sentences.
        if torch._C._functorch.is_functorch_wrapped_tensor(x):
            return self.in_plain_operations(x, present)
        if present is None:
            for norm, layer in zip(self.norms, self.lstms, strict=True):
                x = x + self.dropout(layer(norm(x))[0])
            whole: Tensor = self.last_norm(x)
            return whole
        packed = pack_padded_sequence(x, present.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        for norm, layer in zip(self.norms, self.lstms, strict=True):
            read, _ = layer(_with_data(packed, norm(packed.data)))
            packed = _with_data(packed, packed.data + self.dropout(read.data))
        normed = _with_data(packed, self.last_norm(packed.data))
        vectors, _ = pad_packed_sequence(normed, batch_first=True, total_length=x.shape[1])
        return vectors

    def in_plain_operations(
        self, x: Float[Tensor, "n S d"], present: Bool[Tensor, "n S"] | None
    ) -> Float[Tensor, "n S d"]:
        """The same, one token after the other: for torch.func, and for derivatives of any order."""
        real = torch.ones_like(x[..., :1]) if present is None else present[..., None].to(x)
        for norm, layer in zip(self.norms, self.lstms, strict=True):
            normed = norm(x)
            onward = _direction(layer, normed, real, "l0")
            backward = _direction(layer, normed.flip(1), real.flip(1), "l0_reverse").flip(1)
            x = x + self.dropout(torch.cat([onward, backward], dim=2))
        vectors: Tensor = self.last_norm(x) * real
        return vectors


def _with_data(packed: PackedSequence, data: Tensor) -> PackedSequence:
    """Other vectors at the same places."""
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)


def _direction(
    layer: nn.Module, x: Float[Tensor, "n S d"], real: Float[Tensor, "#n S 1"], suffix: str
) -> Float[Tensor, "n S h"]:
    """One layer in one direction. Padding leaves the state at zero before, or after, the sentence."""
    weights: dict[str, Any] = dict(layer.named_parameters())
    bias = weights[f"bias_ih_{suffix}"] + weights[f"bias_hh_{suffix}"]
    gates = x @ weights[f"weight_ih_{suffix}"].T + bias
    recurrent = weights[f"weight_hh_{suffix}"].T
    state = cell = torch.zeros_like(gates[:, 0, : recurrent.shape[0]])
    states = []
    for place in range(x.shape[1]):
        entry, forget, content, out = (gates[:, place] + state @ recurrent).chunk(4, dim=1)
        cell = real[:, place] * (forget.sigmoid() * cell + entry.sigmoid() * content.tanh())
        state = real[:, place] * (out.sigmoid() * cell.tanh())
        states.append(state)
    return torch.stack(states, dim=1)
