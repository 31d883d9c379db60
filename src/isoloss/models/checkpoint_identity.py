"""What makes two language models the same model, and two tokenizers the same tokenizer."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

_NOT_THE_MODEL = {"_name_or_path", "transformers_version", "dtype", "torch_dtype"}
"""What a configuration says of where a model is from, and not of what it computes."""


def weights_digest(model: PreTrainedModel) -> str:
    """SHA-256 of the architecture and of every weight, whatever folder they are read from.

    >>> from isoloss.models.shapes import laptop_shape
    >>> from isoloss.models.transformers import PostLayerNormTransformer
    >>> build = PostLayerNormTransformer(laptop_shape(16)).build
    >>> weights_digest(build(12, 8, seed=0)) == weights_digest(build(12, 8, seed=0))
    True
    >>> weights_digest(build(12, 8, seed=0)) == weights_digest(build(12, 8, seed=1))
    False
    """
    settings = {name: value for name, value in model.config.to_dict().items() if name not in _NOT_THE_MODEL}
    said = json.dumps([type(model).__name__, settings], sort_keys=True, default=str)
    digest = hashlib.sha256(said.encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def tokenizer_digest(tokenizer: Any) -> str:
    """SHA-256 of all that a tokenizer does, but for how it pads and cuts, which each call says.

    Of one that is not of the package `tokenizers`: of its vocabulary and special tokens.
    """
    known: dict[str, Any] = {"vocabulary": tokenizer.get_vocab(), "special": tokenizer.special_tokens_map}
    if getattr(tokenizer, "is_fast", False):
        steps = json.loads(tokenizer.backend_tokenizer.to_str())
        known = {**steps, "truncation": None, "padding": None, "special": tokenizer.special_tokens_map}
    return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()


def encoding_digest(tokenizer: Any, texts: Sequence[str]) -> str:
    """SHA-256 of the vocabulary, the special tokens, and how these texts are encoded.

    Two tokenizers may be defined differently and yet have the same tokens; and those of one vocabulary may
    cut words differently, which the texts show.
    """
    special = [tokenizer.mask_token_id, *sorted(tokenizer.all_special_ids)]
    encoded = tokenizer(list(texts), verbose=False)["input_ids"]
    said = json.dumps([sorted(tokenizer.get_vocab().items()), special, encoded])
    return hashlib.sha256(said.encode()).hexdigest()
