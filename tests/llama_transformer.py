"""An architecture beside those of the experiments: another norm, other positions, and gated inner layers."""

from dataclasses import dataclass

from transformers import LlamaConfig, LlamaForCausalLM

from isoloss.models.transformers import Attention, Shape, initialised
from isoloss.objectives.tokens import CLS, FIRST_WORD


@dataclass(frozen=True)
class LlamaTransformer:
    """Llama's layout (Touvron et al. 2023): RMS norms, rotary positions, SwiGLU, no biases and no dropout.

    Weights and embeddings are initialised from N(0, 0.02²), gains as 1. Embeddings are tied, as in the
    family's small models, and every head has its own keys. [CLS] begins and ends a sentence.

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
            pad_token_id=None,  # what follows a sentence is never attended to, so no token is special for it
            bos_token_id=CLS,
            eos_token_id=CLS,
            tie_word_embeddings=True,
        )
        return initialised(LlamaForCausalLM, config, self.attention, seed)
