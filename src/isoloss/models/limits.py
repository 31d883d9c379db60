"""How many tokens a loaded model has, how many it reads at once, and which one fills sentences up."""

from torch import nn
from transformers import PreTrainedModel

_MOST_POSITIONS = (
    *("max_position_embeddings", "n_positions", "max_seq_len", "max_target_positions"),
    "max_encoder_position_embeddings",
)
"""What configurations call it: the last three MPT's, Whisper's of its decoder, and LED's of its encoder."""


def longest_sentence(model: PreTrainedModel) -> int | None:
    """The maximum number of tokens that the model has positions for; None if unknown.

    >>> from transformers import RobertaConfig, RobertaForMaskedLM
    >>> longest_sentence(RobertaForMaskedLM(RobertaConfig(
    ...     vocab_size=9, hidden_size=4, num_attention_heads=1, num_hidden_layers=1, intermediate_size=4,
    ...     max_position_embeddings=12)))
    10
    """
    config = model.config.get_text_config()
    named: list[int | None] = [getattr(config, each, None) for each in _MOST_POSITIONS]
    positions = min((each for each in named if each and each > 0), default=0)  # XLNet has -1
    if not positions:
        return None
    # Some families, including RoBERTa, count positions from the padding position on.
    paddings = [
        int(module.padding_idx)
        for name, module in model.named_modules()
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None
    ]
    return positions - paddings[0] - 1 if paddings else positions


def number_of_tokens(model: PreTrainedModel) -> int:
    """The model's vocabulary size, by its embeddings or else by its configuration."""
    embeddings = model.get_input_embeddings()
    if isinstance(embeddings, nn.Embedding):
        return embeddings.num_embeddings
    return int(model.config.get_text_config().vocab_size)


def pad_token_of(model: PreTrainedModel) -> int:
    """The token that fills short sentences up; any would do, since none of it is read.

    Configurations may name one that tokenizers were given later, and that the model does not have.
    """
    pad = getattr(model.config.get_text_config(), "pad_token_id", None)
    return pad if pad is not None and 0 <= pad < number_of_tokens(model) else 0
