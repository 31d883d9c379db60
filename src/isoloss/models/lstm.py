"""LSTM language models for masked words, as ordinary `transformers` folders (paper Section 2.2, A.4)."""

from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput

from isoloss.errors import BadInput
from isoloss.models.transformers import check_dropout, initialised
from isoloss.objectives.tokens import PAD, vocabulary_settings
from isoloss.results.store import ONLY_WHEN_CHANGED

LSTM_WIDTHS, LSTM_LAYERS = (128, 256, 512, 768, 1024), (4, 6, 8, 12, 16)
"""The widths and depths of the paper's LSTMs (A.4), which go together in this order."""


@dataclass(frozen=True)
class LSTM:
    """A bidirectional LSTM over the sentence with its [MASK], which predicts the word from the mask's vector.

    The paper specifies "the implementation of PyTorch" and widths 128 to 1024 with 4 to 16 layers, but not
    how a masked word sees both sides. Its parameter counts reveal this: with BERT's 30,522 tokens, layers of
    `width` / 2 units in each direction have 4, 10, 66 and 132 million at 128 x 4, 256 x 6, 768 x 12 and 1024
    x 16, where the paper has 4, 10, 67 and 135 (the rest is BERT's positions and pooler), so widths and
    depths correspond in the order listed. Each layer is a residual block with a norm before it, and a final
    norm follows; see `BidirectionalLSTM`. Embeddings and output matrix are tied and initialised from N(0, 1 /
    width), the LSTM as in torch, the bias as 0.

    Raises BadInput for an odd width, fewer than one layer, or a dropout that is not a probability below 1.

    >>> model = LSTM(width=16, layers=2).build(words=12, maximum_length=8, seed=0)
    >>> type(model).__name__, model.num_parameters()
    ('LSTMForMaskedLM', 3679)
    """

    width: int
    layers: int
    dropout: float = 0.1
    layer_norm_epsilon: float = 1e-12
    tokens: int | None = field(default=None, metadata=ONLY_WHEN_CHANGED)

    def __post_init__(self) -> None:
        check_dropout(self.dropout)
        if self.width < 2 or self.width % 2 or self.layers < 1:
            raise BadInput(
                f"an LSTM needs an even width, for its two directions, and at least one layer, not "
                f"{self.width} and {self.layers}"
            )

    def build(self, words: int, maximum_length: int, seed: int) -> "LSTMForMaskedLM":
        """An `LSTMForMaskedLM` of words + 3 tokens, or of all `tokens`, for sentences of any length.

        See `Architecture.build`.
        """
        config = LSTMConfig(
            **vocabulary_settings(words, self.tokens),
            hidden_size=self.width,
            num_hidden_layers=self.layers,
            hidden_dropout_prob=self.dropout,
            layer_norm_eps=self.layer_norm_epsilon,
        )
        model: LSTMForMaskedLM = initialised(LSTMForMaskedLM, config, "sdpa", seed)
        return model


class LSTMConfig(PretrainedConfig):
    """The configuration of an LSTM language model for `transformers`."""

    model_type = "isoloss-lstm"

    def __init__(
        self,
        vocab_size: int = 203,
        hidden_size: int = 128,
        num_hidden_layers: int = 4,
        hidden_dropout_prob: float = 0.1,
        layer_norm_eps: float = 1e-12,
        pad_token_id: int | None = PAD,
        tie_word_embeddings: bool = True,
        **settings: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.hidden_dropout_prob = hidden_dropout_prob
        self.layer_norm_eps = layer_norm_eps
        self.initializer_range = hidden_size**-0.5
        super().__init__(pad_token_id=pad_token_id, tie_word_embeddings=tie_word_embeddings, **settings)


class LSTMPreTrainedModel(PreTrainedModel):
    """What the LSTM models have in common."""

    config_class = LSTMConfig
    base_model_prefix = "lstm"
    # There is no attention, so any of its implementations will do.
    _supports_sdpa = True


class LSTMModel(LSTMPreTrainedModel):
    """Embeddings, dropout and the LSTM."""

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__(config)
        self.embeddings = nn.ModuleDict(
            {"word_embeddings": nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)}
        )
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.layers = BidirectionalLSTM(
            config.hidden_size, config.num_hidden_layers, config.hidden_dropout_prob, config.layer_norm_eps
        )
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """The embeddings, which the output layer shares."""
        return self.embeddings["word_embeddings"]

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the embeddings."""
        self.embeddings["word_embeddings"] = value

    def forward(
        self, input_ids: Int[Tensor, "n S"], attention_mask: Tensor | None = None, **_settings: object
    ) -> BaseModelOutput:
        """The contextual vectors as `last_hidden_state`, [n, S, d]; padding must follow the sentence."""
        vectors = self.dropout(self.embeddings["word_embeddings"](input_ids))
        present = None if attention_mask is None else attention_mask.bool()
        return BaseModelOutput(last_hidden_state=self.layers(vectors, present))


class LSTMForMaskedLM(LSTMPreTrainedModel):
    """The LSTM and an output layer tied to the embeddings."""

    _tied_weights_keys = {"lm_head.weight": "lstm.embeddings.word_embeddings.weight"}  # noqa: RUF012

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__(config)
        self.lstm = LSTMModel(config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        """The output layer."""
        return self.lm_head

    def set_output_embeddings(self, value: nn.Linear) -> None:
        """Replace the output layer."""
        self.lm_head = value

    def forward(
        self, input_ids: Int[Tensor, "n S"], attention_mask: Tensor | None = None, **_settings: object
    ) -> MaskedLMOutput:
        """Scores of every token at every position, [n, S, v], as `logits`."""
        vectors = self.lstm(input_ids, attention_mask).last_hidden_state
        return MaskedLMOutput(logits=self.lm_head(self.dropout(vectors)))


AutoConfig.register(LSTMConfig.model_type, LSTMConfig)
AutoModel.register(LSTMConfig, LSTMModel)
AutoModelForMaskedLM.register(LSTMConfig, LSTMForMaskedLM)


class BidirectionalLSTM(nn.Module):
    """`layers` layers of torch's LSTM, `width` / 2 units in each direction (Hochreiter and Schmidhuber 1997).

    Each is a residual block, x ← x + dropout(LSTM(norm(x))), and a final norm follows them all (Xiong et al.
    2020); without residuals, stacks as deep as the paper's 16 layers hardly train. Each layer reads both
    directions of the layer below, so every vector depends on the whole sentence. Padding is not read and has
    no effect. Weights are initialised uniformly in ±1/√units, as in torch, gains as 1.
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
        """The same, token by token in plain operations, for torch.func and for derivatives of any order."""
        real = torch.ones_like(x[..., :1]) if present is None else present[..., None].to(x)
        for norm, layer in zip(self.norms, self.lstms, strict=True):
            normed = norm(x)
            onward = _direction(layer, normed, real, "l0")
            backward = _direction(layer, normed.flip(1), real.flip(1), "l0_reverse").flip(1)
            x = x + self.dropout(torch.cat([onward, backward], dim=2))
        vectors: Tensor = self.last_norm(x) * real
        return vectors


def _with_data(packed: PackedSequence, data: Tensor) -> PackedSequence:
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
