"""Masked language models from folders on disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from transformers import AutoModelForMaskedLM, PreTrainedModel
from transformers.utils import logging

from isoloss.errors import BadInput
from isoloss.models.transformers import Attention


def load_masked_language_model(folder: Path, attention: Attention = "sdpa") -> PreTrainedModel:
    """The model that a checkpoint folder holds, in evaluation mode, on the CPU; never from the network.

    Any folder that `AutoModelForMaskedLM.from_pretrained` reads. Raises BadInput when it reads none there,
    or one without all its weights, whose missing ones `transformers` would draw at random.
    """
    if not (folder / "config.json").is_file():
        raise BadInput(f"{folder} holds no model: it has no config.json; name a checkpoint's folder")
    try:
        with _quiet():
            model, found = AutoModelForMaskedLM.from_pretrained(
                folder, local_files_only=True, attn_implementation=attention, output_loading_info=True
            )
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise BadInput(f"no masked language model can be read from {folder}: {reason}") from error
    if found["missing_keys"]:
        missing = min(found["missing_keys"])
        raise BadInput(f"the model in {folder} lacks {missing}: it is no complete masked language model")
    return model.eval()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the bars and warnings that `transformers` prints while it loads."""
    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
