"""A stack of LSTM layers that read a sentence both ways, by torch's kernels and in plain operations."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class BidirectionalLSTM(nn.Module):
    """`layers` layers of torch's LSTM, `width` / 2 units in each direction (Hochreiter and Schmidhuber 1997).

    Each layer reads both directions of the layer below, so every vector but the first layer's depends on the
    whole sentence. Sentences are read without their padding, which changes nothing. Dropout acts on the
    output of every layer but the last. Weights start uniform in ±1/√units, as torch has them.
    """

    def __init__(self, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        # torch warns of dropout where there is no layer after which it would act.
        self.lstm = nn.LSTM(
            width,
            width // 2,
            layers,
            batch_first=True,
            bidirectional=True,
            dropout=dropout if layers > 1 else 0.0,
        )

    def forward(
        self, x: Float[Tensor, "n S d"], present: Bool[Tensor, "n S"] | None
    ) -> Float[Tensor, "n S d"]:
        """The last layer's vectors, zero on padding; `present` (None: everywhere) is true on real tokens."""
        # Private, but there is no other way to know: torch's kernels cannot be mapped over sentences.
        if torch._C._functorch.is_functorch_wrapped_tensor(x):
            return self.in_plain_operations(x, present)
        if present is None:
            vectors: Tensor = self.lstm(x)[0]
            return vectors
        packed = pack_padded_sequence(x, present.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        vectors, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.shape[1])
        return vectors

    def in_plain_operations(
        self, x: Float[Tensor, "n S d"], present: Bool[Tensor, "n S"] | None
    ) -> Float[Tensor, "n S d"]:
        """The same, one token after the other: for torch.func, and for derivatives of any order."""
        real = torch.ones_like(x[..., :1]) if present is None else present[..., None].to(x)
        for layer in range(self.lstm.num_layers):
            if layer:
                x = nn.functional.dropout(x, self.lstm.dropout, self.training)
            onward = self._direction(x, real, f"l{layer}")
            backward = self._direction(x.flip(1), real.flip(1), f"l{layer}_reverse").flip(1)
            x = torch.cat([onward, backward], dim=2)
        return x

    def _direction(
        self, x: Float[Tensor, "n S d"], real: Float[Tensor, "#n S 1"], suffix: str
    ) -> Float[Tensor, "n S h"]:
        """One layer in one direction. Padding leaves the state at zero before, or after, the sentence."""
        weights: dict[str, Any] = dict(self.lstm.named_parameters())
        bias = weights[f"bias_ih_{suffix}"] + weights[f"bias_hh_{suffix}"]
        gates = x @ weights[f"weight_ih_{suffix}"].T + bias
        recurrent = weights[f"weight_hh_{suffix}"].T
        state = cell = torch.zeros_like(gates[:, 0, : self.lstm.hidden_size])
        states = []
        for place in range(x.shape[1]):
            entry, forget, content, out = (gates[:, place] + state @ recurrent).chunk(4, dim=1)
            cell = real[:, place] * (forget.sigmoid() * cell + entry.sigmoid() * content.tanh())
            state = real[:, place] * (out.sigmoid() * cell.tanh())
            states.append(state)
        return torch.stack(states, dim=1)
