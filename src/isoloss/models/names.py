"""What a name stands for: a model's folder, an adapter, or a model or data set on a hub.

Without torch, which takes seconds to import.
"""

import json
import math
import os
import re
import socket
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import urlparse
from urllib.request import getproxies

from huggingface_hub import constants

from isoloss.errors import BadInput
from isoloss.files import read_text
from isoloss.results.checkpoint import ADAPTER_FILE, refuse_damaged

SECONDS_FOR_THE_HUB = 5.0
MOST_LAYERS = 10_000
"""Many times as many as any published model has; a module takes about a millisecond to make."""
MOST_LABELS = 200_000
"""Several times as many classes as any published model tells apart; each has two entries in a dictionary."""
_COUNT_OF_MODULES = re.compile(r"(^|_)(layers?|blocks|experts|groups|attention_types)$")


def refuse_absent(*names: str) -> None:
    """Raise BadInput for a name that is no path here, and that no hub can have or none can be asked for.

    What was downloaded before may be complete or not: loading it shows.

    >>> refuse_absent("./no-such-folder")
    Traceback (most recent call last):
    isoloss.errors.BadInput: there is no folder ./no-such-folder; name a model's folder, or its name on a hub
    """
    for name in names:
        if not name.strip():
            raise BadInput("the name of a model is empty; name a model's folder, or its name on a hub")
        if re.search(r"[\ud800-\udfff]", name):  # Python's stand-ins for bytes of other encodings
            raise BadInput(f"the name {name} is not UTF-8, which reading weights requires; rename the folder")
        if Path(name).is_dir():
            _refuse_without_model(Path(name))
        elif Path(name).exists():
            continue  # a file, of which its kind tells more
        elif name.startswith((".", "/", "~")) or name.count("/") > 1:
            raise BadInput(f"there is no folder {name}; name a model's folder, or its name on a hub")
        elif not _is_in_cache(name) and not hub_is_reachable():
            raise unreachable(name)


def refuse_absent_data_set(name: str) -> None:
    """Raise BadInput for a name that is no path here, and that the hub does not have or cannot be asked for.

    `name` may end in ":CONFIGURATION". Whether what was downloaded before is complete, loading it shows.

    >>> refuse_absent_data_set("./none")
    Traceback (most recent call last):
    isoloss.errors.BadInput: there is no folder ./none; name a data set's folder, or its name on a hub
    """
    asked = name.partition(":")[0]
    if not asked.strip():
        raise BadInput("the name of a data set is empty; name a data set's folder, or its name on a hub")
    if Path(asked).exists() or _data_set_is_in_cache(asked):
        return
    if asked.startswith((".", "/", "~")) or asked.count("/") > 1:
        raise BadInput(f"there is no folder {asked}; name a data set's folder, or its name on a hub")
    if constants.HF_HUB_OFFLINE or not hub_is_reachable():
        raise BadInput(
            f"there is no file or folder {asked}, and the hub cannot be reached to look for a data set of "
            "that name; check the name, or fetch the texts on a machine with a network and name their files"
        )
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    try:
        HfApi().dataset_info(asked, timeout=SECONDS_FOR_THE_HUB)
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise BadInput(
            f"there is no file or folder {asked}, and no data set of that name on the hub; check the name, "
            "or log in to the hub if it is private"
        ) from error
    except Exception:  # the client raises many types; reading, which comes next, says what is wrong
        return


def unreachable(name: str) -> BadInput:
    """What to say of a name that is no folder, where no hub can be asked."""
    return BadInput(
        f"there is no folder {name}, and the hub cannot be reached to look for it there; check the "
        "name, or fetch the model on a machine with a network and name its folder"
    )


def hub_is_reachable() -> bool:
    """Whether the hub's address can be resolved here, or a proxy is set, which then resolves it."""
    if getproxies():
        return True
    try:
        socket.getaddrinfo(urlparse(constants.ENDPOINT).hostname, 443)
    except OSError:
        return False
    return True


def _refuse_without_model(folder: Path) -> None:
    """Raise BadInput for a folder with neither a model, nor weights in one file, nor an adapter."""
    refuse_damaged(folder, "config.json")
    if (folder / "config.json").is_file():
        read_configuration(folder)
        return
    if (folder / ADAPTER_FILE).is_file() or any(folder.glob("*.gguf")):
        return
    inside = sorted(str(path.parent) for path in folder.glob("*/config.json"))
    advice = f", such as {inside[0]}" if inside else ""
    raise BadInput(f"{folder} holds no model: it has no config.json; name a checkpoint's folder{advice}")


def _is_in_cache(name: str) -> bool:
    return (Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}").is_dir()


def _data_set_is_in_cache(name: str) -> bool:
    """Whether its files were fetched, or what the package `datasets` prepared from them."""
    prepared = Path(os.environ.get("HF_DATASETS_CACHE") or Path(constants.HF_HOME) / "datasets")
    fetched = Path(constants.HF_HUB_CACHE) / f"datasets--{name.replace('/', '--')}"
    return fetched.is_dir() or any(_letters(path.name) == _letters(name) for path in prepared.glob("*"))


def _letters(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def read_configuration(folder: Path) -> dict[str, Any]:
    """The content of the folder's config.json. Raises BadInput where it is no JSON object, or beyond use."""
    path = folder / "config.json"
    text = read_text(path, "a configuration")  # refuses what is no text, or must not be read
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise BadInput(f"{path} is not a JSON object; write the model's configuration there")
    if path.read_bytes().startswith(BOM_UTF8):
        raise BadInput(
            f"{path} begins with a byte order mark, with which transformers does not read it; save it as "
            "UTF-8 without one"
        )
    refuse_beyond_use(content, path)
    return content


def refuse_beyond_use(content: Mapping[str, Any], path: Path) -> None:
    """Raise BadInput for what is not a number, and for more layers or experts than a model is made of.

    >>> refuse_beyond_use({"text_config": {"num_hidden_layers": 10**7}}, Path("config.json"))
    Traceback (most recent call last):
    isoloss.errors.BadInput: config.json asks for a model with 10,000,000 as num_hidden_layers, which is ...
    """
    for name, value in content.items():
        if isinstance(value, dict):
            refuse_beyond_use(value, path)
        elif isinstance(value, float) and math.isnan(value):
            raise BadInput(f"{name} in {path} is not a number (NaN); mend it")
        most = MOST_LABELS if name == "num_labels" else MOST_LAYERS
        counts = name == "num_labels" or _COUNT_OF_MODULES.search(name)
        largest = max(_whole_numbers(value), default=0) if counts else 0
        if largest > most:
            raise BadInput(
                f"{path} asks for a model with {largest:,} as {name}, which is more than any published model "
                "has; mend it"
            )


def out_of_range(content: Mapping[str, Any]) -> str | None:
    """The first number of a configuration, without its parts, with which models seldom work, and why.

    Some load all the same, so this is a reason only where one does not.

    >>> out_of_range({"vocab_size": 20, "pad_token_id": 99})
    'pad_token_id is 99, which is no token below its vocab_size 20'
    >>> out_of_range({"vocab_size": 20, "pad_token_id": None, "text_config": {"vocab_size": 0}})
    """
    for name in ("vocab_size", "max_position_embeddings"):
        value = content.get(name)
        if isinstance(value, int) and value < 1:
            return f"{name} is {value}, which is not above 0"
    size, pad = content.get("vocab_size"), content.get("pad_token_id")
    if isinstance(size, int) and isinstance(pad, int) and not -size <= pad < size:
        return f"pad_token_id is {pad}, which is no token below its vocab_size {size}"
    return None


def _whole_numbers(value: object) -> Iterator[int]:
    """Those in a value, or in its lists of lists, however deep."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, list):
            left += each
        elif isinstance(each, int):
            yield each


_TOKENS_BEFORE = (
    "{}, which puts tokens of its own before a sentence and adds to no weights; measure its base model, or "
    "an adapter of weights, such as LoRA's"
)
_ONE_VECTOR = "{}, whose layers share weights in a way that is not measured; merge it into its base model"
_NOT_MEASURED = {
    "ADALORA": "AdaLoRA, which does not store how many ranks are left; merge it into its base model",
    "PREFIX_TUNING": _TOKENS_BEFORE.format("prefix tuning"),
    "PROMPT_TUNING": _TOKENS_BEFORE.format("prompt tuning"),
    "MULTITASK_PROMPT_TUNING": _TOKENS_BEFORE.format("prompt tuning"),
    "P_TUNING": _TOKENS_BEFORE.format("P-tuning"),
    "CPT": _TOKENS_BEFORE.format("prompt tuning"),
    "CARTRIDGE": _TOKENS_BEFORE.format("prefix tuning"),
    "ADAPTION_PROMPT": _TOKENS_BEFORE.format("LLaMA-Adapter"),
    "VBLORA": _ONE_VECTOR.format("VB-LoRA"),
    "TINYLORA": _ONE_VECTOR.format("TinyLoRA"),
    "UNILORA": _ONE_VECTOR.format("Uni-LoRA"),
    "SHIRA": "SHiRA, whose sparse weights have no gradients of sentences; merge it into its base model",
    "FROD": _ONE_VECTOR.format("FRoD"),
}
"""By peft's name of their kind, as sentences go on."""


def base_of_adapter(name: str) -> str | None:
    """The folder or the hub's name of the model that an adapter is added to; None if it is no adapter.

    A folder may also be named relative to the adapter's. Raises BadInput if the adapter names none, or if
    it is of a kind that cannot be measured.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> base_of_adapter(str(folder)) is None
    True
    >>> _ = (folder / ADAPTER_FILE).write_text('{"base_model_name_or_path": "gpt2"}')
    >>> base_of_adapter(str(folder))
    'gpt2'
    """
    folder = Path(name)
    if not (folder / ADAPTER_FILE).is_file():
        return None
    refuse_irregular(folder)
    settings = settings_of_adapter(folder)
    base, kind = settings.get("base_model_name_or_path"), str(settings.get("peft_type"))
    if not isinstance(base, str) or not base.strip():
        raise BadInput(
            f"{folder / ADAPTER_FILE} names no base model; write its name as base_model_name_or_path"
        )
    if kind in _NOT_MEASURED:
        raise BadInput(f"{name} is an adapter of {_NOT_MEASURED[kind]}")
    inside = folder / base
    found = str(inside) if inside.is_dir() and not Path(base).is_dir() else base
    if (Path(found) / ADAPTER_FILE).is_file():
        raise BadInput(
            f"{name} is an adapter of {found}, itself an adapter; merge that one into its base model"
        )
    return found


def settings_of_adapter(folder: Path) -> dict[str, object]:
    """What the file of an adapter of peft says; nothing if that is not JSON."""
    text = read_text(folder / ADAPTER_FILE, "an adapter's settings")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def refuse_irregular(folder: Path) -> None:
    """Raise BadInput for a device or a pipe among a model's files, read without end, or what may not be read.

    >>> import os, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> os.mkfifo(folder / "model.safetensors")
    >>> refuse_irregular(folder)
    Traceback (most recent call last):
    isoloss.errors.BadInput: .../model.safetensors is a device or a pipe; put a file there
    """
    for path in sorted(folder.iterdir()):
        _refuse_irregular_file(path)
    for index in sorted(folder.glob("*.index.json")):
        for name in _named_in(index):
            if PurePath(name).is_absolute() or ".." in PurePath(name).parts:
                raise BadInput(
                    f"{index} names {name}, which is not in the folder; put it there, and name that"
                )
            _refuse_irregular_file(folder / name)


def _refuse_irregular_file(path: Path) -> None:
    if path.exists() and not path.is_file() and not path.is_dir():
        raise BadInput(f"{path} is a device or a pipe; put a file there")
    if path.is_file() and not os.access(path, os.R_OK):  # which libraries call absent
        raise BadInput(f"{path} may not be read; mend its permissions")


def _named_in(index: Path) -> list[str]:
    """The files that an index of weights names; none of what is no index, which whoever reads it refuses."""
    try:
        content = json.loads(index.read_bytes())
    except (ValueError, RecursionError):
        return []
    named = content.get("weight_map") if isinstance(content, dict) else None
    files = named.values() if isinstance(named, dict) else ()
    return sorted({name for name in files if isinstance(name, str)})
