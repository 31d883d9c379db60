"""Causal transformers: GPT-2's layout and Llama's, as `transformers` has them."""

from dataclasses import dataclass, field

from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from isoloss.checked_files import ONLY_WHEN_CHANGED
from isoloss.models.shapes import Shape
from isoloss.models.transformers import Attention, check_dropout, initialised
from isoloss.objectives.tokens import CLS, FIRST_WORD, vocabulary_settings


@dataclass(frozen=True)
class GPT2Transformer:
    """GPT-2's layout (Radford et al. 2019): pre-LN with a norm after the last block, learned positions, GELU.

    Weights and embeddings start as N(0, 0.02²), the projections back into the residual stream as N(0, 0.02²
    / (2 layers)), biases as 0, gains as 1, which is how GPT-2 and `transformers` initialise. Input and
    output embeddings are one tensor. [CLS] begins and ends a sentence, as <|endoftext|> does for GPT-2.

    >>> from isoloss.models.shapes import laptop_shape
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
            pad_token_id=None,  # what follows a sentence is never seen, so no token is special for it
            bos_token_id=CLS,
            eos_token_id=CLS,
            tie_word_embeddings=True,
        )
        return initialised(GPT2LMHeadModel, config, self.attention, seed)


@dataclass(frozen=True)
class LlamaTransformer:
    """Llama's layout (Touvron et al. 2023): RMS norms, rotary positions, SwiGLU, no biases and no dropout.

    Weights and embeddings start as N(0, 0.02²), gains as 1. Embeddings are tied, as in the family's small
    models, and every head has keys of its own. [CLS] begins and ends a sentence.

    >>> from isoloss.models.shapes import laptop_shape
    >>> model = LlamaTransformer(laptop_shape(16)).build(words=12, maximum_length=8, seed=0)
    >>> type(model).__name__, model.num_parameters()
    ('LlamaForCausalLM', 8512)
    """

    shape: Shape
    attention: Attention = "sdpa"

    def build(self, words: int, maximum_length: int, seed: int) -> LlamaForCausalLM:
        """A `LlamaForCausalLM` of words + 3 tokens; see `Architecture.build`."""
        config = LlamaConfig(
            vocab_size=words + FIRST_WORD,
            max_position_embeddings=maximum_length + 1,
            hidden_size=self.shape.width,
            num_hidden_layers=self.shape.layers,
            num_attention_heads=self.shape.heads,
            intermediate_size=self.shape.inner_width,
            initializer_range=0.02,
            pad_token_id=None,  # what follows a sentence is never seen, so no token is special for it
            bos_token_id=CLS,
            eos_token_id=CLS,
            tie_word_embeddings=True,
        )
        return initialised(LlamaForCausalLM, config, self.attention, seed)
