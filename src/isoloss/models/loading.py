"""Loads language models from folders on disk, and causal ones also by name from a hub."""

import json
import pickle
import re
import socket
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import getproxies

import torch
from huggingface_hub import constants
from safetensors import SafetensorError
from tokenizers.pre_tokenizers import BertPreTokenizer, WhitespaceSplit
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
    BertTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

import isoloss.models.lstm  # noqa: F401 - makes its classes known to `transformers`
from isoloss.errors import BadInput, IsolossError
from isoloss.models.folder_configuration import configuration_in, states_type
from isoloss.models.transformers import Attention

_FAILURES = (
    OSError,
    ValueError,
    RuntimeError,
    KeyError,
    ImportError,
    SafetensorError,
    pickle.UnpicklingError,
)


def load_masked_language_model(folder: Path, attention: Attention = "sdpa") -> PreTrainedModel:
    """The model in a checkpoint folder, in evaluation mode, on the CPU; never uses the network.

    Accepts any folder that `AutoModelForMaskedLM.from_pretrained` can load. Raises BadInput if there is no
    such model, or if weights are missing, which `transformers` would initialise at random.
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
    """A causal model in evaluation mode on the CPU, from a folder or else by its name on a hub.

    Accepts whatever `AutoModelForCausalLM.from_pretrained` can load; `gguf_file` names a GGUF file in the
    folder, which needs the packages `gguf` and `accelerate`. Raises BadInput if there is no such model, or
    weights are missing.
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
    """The tokenizer beside such a model: as AutoTokenizer loads it, or from a lone BERT-style vocab.txt.

    Such a file does not say whether the tokenizer lower-cases, which is inferred from its words, nor how
    texts are split: if some words cannot result from splitting at punctuation, texts are split at white
    space. Raises BadInput if there is no tokenizer.
    """
    folder = Path(name)
    lone = (folder / "vocab.txt").is_file() and not (folder / "tokenizer.json").is_file()
    tokenizer: PreTrainedTokenizerBase | None = None
    with refusing("tokenizer", name), quiet():
        typeless = folder.is_dir() and not states_type(folder)
        settings = {"config": configuration_in(folder)} if typeless else {}
        try:
            tokenizer = AutoTokenizer.from_pretrained(
                name, gguf_file=gguf_file, local_files_only=folder.is_dir(), **settings
            )
        except (OSError, ValueError, KeyError):
            if not lone:
                raise
        # If there are no files, `transformers` makes up a tokenizer without words.
        if tokenizer is not None and len(tokenizer) <= len(tokenizer.all_special_ids):
            tokenizer = None
        if lone and (tokenizer is None or type(tokenizer).__name__ in ("BertTokenizer", "BertTokenizerFast")):
            tokenizer = _of_vocabulary(folder) or tokenizer
        if tokenizer is None:
            raise ValueError("its tokenizer has no tokens")
    return tokenizer


_ITS_OWN = re.compile(r"\[(PAD|UNK|CLS|SEP|MASK|unused\d+)\]")
"""What BERT's vocabularies hold beside words."""


def _of_vocabulary(folder: Path) -> PreTrainedTokenizerBase | None:
    """A BERT tokenizer for the words in vocab.txt; None if the file is not in BERT's style."""
    lines = (folder / "vocab.txt").read_text("utf-8").split("\n")
    words = [word for word in lines if word and not _ITS_OWN.fullmatch(word)]
    if not {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"} <= set(lines):
        return None
    path = folder / "tokenizer_config.json"
    said = json.loads(path.read_text("utf-8")).get("do_lower_case") if path.is_file() else None
    lower = not _with_capitals(words) if said is None else bool(said)
    tokenizer: PreTrainedTokenizerBase = BertTokenizer.from_pretrained(
        folder, do_lower_case=lower, local_files_only=True
    )
    cut = BertPreTokenizer().pre_tokenize_str
    if not any(word.startswith("##") for word in words) and any(len(cut(word)) > 1 for word in words):
        tokenizer.backend_tokenizer.pre_tokenizer = WhitespaceSplit()
    return tokenizer


def _with_capitals(words: Iterable[str]) -> list[str]:
    return [word for word in words if word != word.lower() and not _ITS_OWN.fullmatch(word)]


def lost_capitals(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """A warning if the tokenizer lower-cases texts, so that its words with capitals never occur."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not getattr(getattr(backend, "normalizer", None), "lowercase", False):
        return None
    special = set(tokenizer.all_special_tokens)
    lost = [word for word in _with_capitals(tokenizer.get_vocab()) if word not in special]
    if not lost:
        return None
    return (
        f"the tokenizer makes texts small, but {len(lost):,} of its {len(tokenizer):,} words have capitals, "
        f'such as {min(lost)}; set "do_lower_case": false in its tokenizer_config.json if they are to be met'
    )


@contextmanager
def refusing(what: str, name: str) -> Iterator[None]:
    """Turn the many possible errors of reading `what` from `name` into a one-sentence BadInput."""
    try:
        yield
    except IsolossError:
        raise
    except _FAILURES as error:
        if "trust_remote_code" in str(error):
            raise BadInput(
                f"{name} comes with code of its own, which isoloss does not run; convert it to a model that "
                "transformers knows"
            ) from error
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        if isinstance(error, pickle.UnpicklingError):
            reason = "its .bin file is damaged, or holds more than weights, which torch does not unpickle"
            mended = "save it again with save_pretrained, which writes safetensors"
        elif isinstance(error, SafetensorError):
            reason, mended = f"a file of weights is damaged ({reason})", "fetch or copy the folder again"
        elif isinstance(error, FileNotFoundError):
            mended = "fetch or copy that file too"
        else:
            mended = "give a folder that holds one, or a hub's name where the hub can be reached"
        raise BadInput(f"no {what} can be read from {name}: {reason}; {mended}") from error


def refuse_unreachable_hub(name: str) -> None:
    """Fail at once, rather than after many retries, unless the model was downloaded before."""
    try:
        with quiet():
            AutoConfig.from_pretrained(name, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError):
        if not hub_is_reachable():
            raise BadInput(
                f"there is no folder {name}, and the hub cannot be reached to look for it there; check the "
                "name, or fetch the model on a machine with a network and name its folder"
            ) from None


def hub_is_reachable() -> bool:
    """Whether the hub's address can be resolved here, or a proxy is set, which then resolves it."""
    if getproxies():
        return True
    try:
        socket.getaddrinfo(urlparse(constants.ENDPOINT).hostname, 443)
    except OSError:
        return False
    return True


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the progress bars and warnings that `transformers` and torch print while loading."""
    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Detected pickle protocol")  # torch's, for foreign .bin files
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
