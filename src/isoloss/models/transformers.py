"""Transformers from `transformers`, and their shapes: BERT's layout, post-LN and pre-LN, GPT-2's, Llama's."""

import math
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedModel,
    RobertaPreLayerNormConfig,
    RobertaPreLayerNormForMaskedLM,
)

from isoloss.errors import BadInput
from isoloss.objectives.tokens import CLS, PAD, vocabulary_settings
from isoloss.results.store import ONLY_WHEN_CHANGED


@dataclass(frozen=True)
class Shape:
    """Width, attention heads per layer, layers, and inner width of the feed-forward blocks.

    Raises BadInput if a number is not positive or the heads do not divide the width.

    >>> Shape(width=64, heads=1, layers=1, inner_width=256).head_size
    64
    """

    width: int
    heads: int
    layers: int
    inner_width: int

    def __post_init__(self) -> None:
        if min(self.width, self.heads, self.layers, self.inner_width) < 1:
            raise BadInput(f"every number of {self} must be at least 1")
        if self.width % self.heads:
            raise BadInput(f"the {self.heads} heads of {self} do not divide its width; choose another number")

    @staticmethod
    def of(config: Any) -> "Shape":
        """That of a model with this configuration of `transformers`."""
        heads, layers = config.num_attention_heads, config.num_hidden_layers
        return Shape(config.hidden_size, heads, layers, config.intermediate_size)

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.width // self.heads


TABLE_3 = (
    Shape(64, 1, 1, 256),
    Shape(128, 2, 4, 512),
    Shape(192, 3, 5, 768),
    Shape(256, 4, 6, 1024),
    Shape(512, 8, 8, 2048),
    Shape(768, 12, 12, 3072),
    Shape(1024, 16, 16, 4096),
    Shape(1280, 20, 20, 5120),
    Shape(1536, 24, 24, 6144),
)
"""The transformers of the paper's Section 2, smallest first."""

TABLE_4 = (
    Shape(128, 2, 4, 512),
    Shape(192, 3, 5, 768),
    Shape(320, 5, 6, 1280),
    Shape(384, 6, 7, 1536),
    Shape(640, 10, 12, 2560),
    Shape(960, 15, 16, 3840),
    Shape(1920, 30, 20, 7680),
)
"""The transformers of the paper's Figure 5, smallest first, with inner widths of four times the width.

That is what B.4 says they are, and with BERT's 30,522 tokens the last is then the paper's "950M" and the
fourth its "25M"; see `TABLE_4_PRINTED_INNER`."""
TABLE_4_PRINTED_INNER = (512, 768, 1024, 2048, 3072, 4096, 5120)
"""The inner widths that Table 4 prints, which from the third row on are not four times the width."""


def laptop_shape(width: int) -> Shape:
    """Two layers, heads of 16, inner width four times the width.

    >>> laptop_shape(48)
    Shape(width=48, heads=3, layers=2, inner_width=192)
    """
    if width < 16 or width % 16:
        raise BadInput(f"a laptop shape's width must be a multiple of its head size 16, not {width}")
    return Shape(width, width // 16, 2, 4 * width)


LAPTOP = tuple(laptop_shape(width) for width in (16, 32, 48, 64, 96, 128))
"""Shapes that train in minutes on one core, smallest first."""


Attention = Literal["sdpa", "eager"]
"""How attention is computed: "sdpa" is torch's fused kernel, "eager" plain operations, which alone can be
differentiated twice on a CPU. The mathematics is the same."""
WHOLE_TOKENIZER = 30_522
"""The tokens of BERT's uncased tokenizer (Devlin et al. 2019), by which the paper counts its models' sizes:
what `tokens` of an architecture may be beside None, which stands for the language's words."""
BERTS_DEVIATION = 0.02


@runtime_checkable
class Architecture(Protocol):
    """Settings from which a model is built."""

    def build(self, words: int, maximum_length: int, seed: int) -> PreTrainedModel:
        """A newly initialised model on the CPU, for c words and sentences of at most `maximum_length` words.

        Its weights are a pure function of the settings and the arguments; the global random state is left
        untouched.
        """


@dataclass(frozen=True)
class PostLayerNormTransformer:
    """BERT itself (Devlin et al. 2019; paper B.4): each layer norm after its residual sum.

    Weights and embeddings are initialised from N(0, 0.02²), biases and the [PAD] embedding as 0, gains as 1,
    as in BERT and `transformers`. Input and output embeddings are tied; there is one segment, GELU, and a
    layer norm epsilon of 1e-12. `dropout` is applied where BERT's is, including attention.

    >>> from isoloss.models.transformers import laptop_shape
    >>> model = PostLayerNormTransformer(laptop_shape(16)).build(words=12, maximum_length=8, seed=0)
    >>> type(model).__name__, model.num_parameters()
    ('BertForMaskedLM', 7311)
    """

    shape: Shape
    dropout: float = 0.1
    attention: Attention = "sdpa"
    tokens: int | None = field(default=None, metadata=ONLY_WHEN_CHANGED)

    def __post_init__(self) -> None:
        check_dropout(self.dropout)

    def build(self, words: int, maximum_length: int, seed: int) -> BertForMaskedLM:
        """A `BertForMaskedLM` of words + 3 tokens, or of all `tokens`; see `Architecture.build`."""
        settings = _settings(self.shape, self.dropout, vocabulary_settings(words, self.tokens))
        # One position for each word and one for [CLS].
        config = BertConfig(max_position_embeddings=maximum_length + 1, **settings)
        return initialised(BertForMaskedLM, config, self.attention, seed)


@dataclass(frozen=True)
class PreLayerNormTransformer:
    """The same with each layer norm before its block and one after the last (Xiong et al. 2020).

    This is what the paper's authors trained, following Izsak et al. 2021. `transformers` calls it
    RoBERTa-PreLayerNorm, which keeps BERT's norm of the embeddings. Initialised like
    `PostLayerNormTransformer`, with weights and embeddings of standard deviation `initial_deviation`: the
    larger it is, the less the weights have to move to fit the data (lazy training, Chizat et al. 2019). Its
    first position embedding belongs to [PAD], and no word uses it.

    >>> from isoloss.models.transformers import laptop_shape
    >>> model = PreLayerNormTransformer(laptop_shape(16)).build(words=12, maximum_length=8, seed=0)
    >>> type(model).__name__, model.num_parameters()
    ('RobertaPreLayerNormForMaskedLM', 7359)
    """

    shape: Shape
    dropout: float = 0.1
    attention: Attention = "sdpa"
    tokens: int | None = field(default=None, metadata=ONLY_WHEN_CHANGED)
    initial_deviation: float = field(default=BERTS_DEVIATION, metadata=ONLY_WHEN_CHANGED)

    def __post_init__(self) -> None:
        check_dropout(self.dropout)
        if not 0 < self.initial_deviation < math.inf:
            raise BadInput(f"weights start with a deviation above 0, not {self.initial_deviation}")

    def build(self, words: int, maximum_length: int, seed: int) -> RobertaPreLayerNormForMaskedLM:
        """A `RobertaPreLayerNormForMaskedLM` of words + 3 or all `tokens`; see `Architecture.build`."""
        settings = _settings(self.shape, self.dropout, vocabulary_settings(words, self.tokens))
        # RoBERTa counts positions from the padding token's number plus one.
        config = RobertaPreLayerNormConfig(
            max_position_embeddings=maximum_length + PAD + 2,
            **settings | {"initializer_range": self.initial_deviation},
        )
        return initialised(RobertaPreLayerNormForMaskedLM, config, self.attention, seed)


def parameter_count(architecture: Architecture, words: int, maximum_length: int) -> int:
    """The number of parameters of such a model, with tied ones counted once; allocates no weights.

    >>> from isoloss.models.transformers import TABLE_3
    >>> parameter_count(PreLayerNormTransformer(TABLE_3[4]), words=200, maximum_length=32)
    25606859
    """
    settings: Any = architecture  # frozen and hence hashable, which a protocol cannot tell the cache
    return _counted(settings, words, maximum_length)


@cache
def _counted(architecture: Any, words: int, maximum_length: int) -> int:
    with torch.device("meta"):
        model = architecture.build(words, maximum_length, seed=0)
    return sum(parameter.numel() for parameter in model.parameters())


def _settings(shape: Shape, dropout: float, vocabulary: dict[str, Any]) -> dict[str, Any]:
    return {
        **vocabulary,
        "hidden_size": shape.width,
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "intermediate_size": shape.inner_width,
        "hidden_act": "gelu",
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
        "initializer_range": BERTS_DEVIATION,
        "layer_norm_eps": 1e-12,
        "type_vocab_size": 1,
        "pad_token_id": PAD,
        "bos_token_id": None,
        "eos_token_id": None,
        "tie_word_embeddings": True,
    }


def initialised(model: Any, config: Any, attention: Attention, seed: int) -> Any:
    """A model of class `model`, its weights drawn from `seed` alone."""
    config.architectures = [model.__name__]
    config._attn_implementation = attention
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return model(config)


def check_dropout(dropout: float) -> None:
    """Raise BadInput unless `dropout` is a probability below 1."""
    if not 0 <= dropout < 1:
        raise BadInput(f"dropout must be at least 0 and below 1, not {dropout}")


@dataclass(frozen=True)
class GPT2Transformer:
    """GPT-2's layout (Radford et al. 2019): pre-LN with a norm after the last block, learned positions, GELU.

    Weights and embeddings are initialised from N(0, 0.02²), the projections back into the residual stream
    from N(0, 0.02² / (2 layers)), biases as 0, gains as 1, as in GPT-2 and `transformers`. Input and output
    embeddings are tied. [CLS] begins and ends a sentence, as <|endoftext|> does for GPT-2.

    >>> from isoloss.models.transformers import laptop_shape
    >>> model = GPT2Transformer(laptop_shape(16)).build(words=12, maximum_length=8, seed=0)
    >>> type(model).__name__, model.num_parameters()
    ('GPT2LMHeadModel', 6976)
    """

    shape: Shape
    dropout: float = 0.1
    attention: Attention = "sdpa"
    tokens: int | None = field(default=None, metadata=ONLY_WHEN_CHANGED)

    def __post_init__(self) -> None:
        check_dropout(self.dropout)

    def build(self, words: int, maximum_length: int, seed: int) -> GPT2LMHeadModel:
        """A `GPT2LMHeadModel` of words + 3 tokens, or of all `tokens`; see `Architecture.build`."""
        config = GPT2Config(
            **vocabulary_settings(words, self.tokens),
            n_positions=maximum_length + 1,
            n_embd=self.shape.width,
            n_layer=self.shape.layers,
            n_head=self.shape.heads,
            n_inner=self.shape.inner_width,
            activation_function="gelu",
            resid_pdrop=self.dropout,
            embd_pdrop=self.dropout,
            attn_pdrop=self.dropout,
            initializer_range=0.02,
            pad_token_id=None,  # what follows a sentence is never attended to, so no token is special for it
            bos_token_id=CLS,
            eos_token_id=CLS,
            tie_word_embeddings=True,
        )
        return initialised(GPT2LMHeadModel, config, self.attention, seed)
