"""Language models from folders on disk, and causal ones by a hub's name too."""

from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

import isoloss.models.lstm  # noqa: F401 - makes its classes known to `transformers`
from isoloss.errors import BadInput
from isoloss.models.reading import quiet, refuse_unreachable_hub, refusing
from isoloss.models.transformers import Attention


def load_masked_language_model(folder: Path, attention: Attention = "sdpa") -> PreTrainedModel:
    """The model that a checkpoint folder holds, in evaluation mode, on the CPU; never from the network.

    Any folder that `AutoModelForMaskedLM.from_pretrained` reads. Raises BadInput when it reads none there,
    or one without all its weights, whose missing ones `transformers` would draw at random.
    """
    if not (folder / "config.json").is_file():
        raise BadInput(f"{folder} holds no model: it has no config.json; name a checkpoint's folder")
    with refusing("masked language model", str(folder)), quiet():
        model, found = AutoModelForMaskedLM.from_pretrained(
            folder, local_files_only=True, attn_implementation=attention, output_loading_info=True
        )
    if found["missing_keys"]:
        missing = min(found["missing_keys"])
        raise BadInput(f"the model in {folder} lacks {missing}: it is no complete masked language model")
    return model.eval()


def load_causal_language_model(
    name: str, gguf_file: str | None = None, attention: Attention = "sdpa", dtype: torch.dtype = torch.float32
) -> PreTrainedModel:
    """A causal model in evaluation mode on the CPU: of a folder, or else of that name on a hub.

    Whatever `AutoModelForCausalLM.from_pretrained` reads; `gguf_file` names a GGUF file in the folder, which
    needs the packages `gguf` and `accelerate`. Raises BadInput where nothing can be read, or weights are
    missing.
    """
    if not Path(name).is_dir():
        refuse_unreachable_hub(name)
    with refusing("causal language model", name), quiet():
        model, found = AutoModelForCausalLM.from_pretrained(
            name,
            gguf_file=gguf_file,
            local_files_only=Path(name).is_dir(),
            attn_implementation=attention,
            dtype=dtype,
            output_loading_info=True,
        )
    if found["missing_keys"]:
        missing = min(found["missing_keys"])
        raise BadInput(f"the model {name} lacks {missing}: it is no complete causal language model")
    return model.eval()


def load_tokenizer(name: str, gguf_file: str | None = None) -> PreTrainedTokenizerBase:
    """The tokenizer beside such a model. Raises BadInput where there is none."""
    with refusing("tokenizer", name), quiet():
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            name, gguf_file=gguf_file, local_files_only=Path(name).is_dir()
        )
        # Where there are no files `transformers` makes up a tokenizer without words.
        if len(tokenizer) <= len(tokenizer.all_special_ids):
            raise ValueError("its tokenizer has no tokens")
    return tokenizer
