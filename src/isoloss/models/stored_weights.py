"""What files of weights in a folder hold, without the model, and peft's adapters, added to a base model's."""

import json
import pickle
import struct
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn
from transformers import PreTrainedModel

from isoloss.device import free_memory
from isoloss.errors import BadInput, IsolossError, is_failure
from isoloss.files import read_text
from isoloss.models.hub import quiet, refuse_irregular, refusing
from isoloss.results.checkpoint import ADAPTER_FILE

_STORED = {"F64": torch.float64, "F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
"""Floating-point types by their names in safetensors."""

_SAVED = "save a model's state_dict there, whose names are words: torch.save(model.state_dict(), path)"
HALVES = (torch.bfloat16, torch.float16)


def weight_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the folder's weights, from safetensors or else torch's .bin files.

    Raises BadInput if a .bin file wraps the weights in another structure, and whatever torch and safetensors
    raise for a damaged file.
    """
    shapes = {name: shape for name, (_, shape) in _safetensors(folder).items()}
    for path in [] if shapes else sorted(folder.glob("pytorch_model*.bin")):
        held = held_in(path, "meta")
        around = [name for name, value in held.items() if isinstance(value, Mapping)]
        if around:
            raise BadInput(
                f"{path} holds a state of training, not weights alone; save what it has under "
                f"{around[0]!r} in its place: torch.save(torch.load(path)[{around[0]!r}], path)"
            )
        shapes |= {
            name: tuple(value.shape) for name, value in held.items() if isinstance(value, torch.Tensor)
        }
    return shapes


def holds_weights(name: str) -> bool:
    """Whether the folder holds a file of weights, or it is no folder, but a name on a hub.

    >>> holds_weights("gpt2")
    True
    """
    folder = Path(name)
    return not folder.is_dir() or any(any(folder.glob(each)) for each in ("*.safetensors", "*.bin", "*.gguf"))


def missing_parts(folder: Path) -> tuple[int, int]:
    """How many files of weights the folder's index names but the folder lacks, and how many it names; or 0.

    Raises BadInput for an index that is none.
    """
    for path in sorted(folder.glob("*.index.json")):
        with refusing("index of weights", str(path)):
            named = set(json.loads(path.read_text("utf-8"))["weight_map"].values())
            return sum(not (folder / each).is_file() for each in named), len(named)
    return 0, 0


def stored_elements(folder: Path) -> dict[torch.dtype, int]:
    """How many numbers the folder's safetensors hold of each floating-point type; none of other files."""
    refuse_irregular(folder)
    found: dict[torch.dtype, int] = {}
    for stored_as, shape in _safetensors(folder).values():
        if (kind := _STORED.get(stored_as)) is not None:
            found[kind] = found.get(kind, 0) + prod(shape)
    return found


def refuse_whole_numbers(folder: Path, model: nn.Module) -> None:
    """Raise BadInput for a weight that is stored in whole or complex numbers, which are cast when read."""
    held = {name: stored_as for name, (stored_as, _) in _safetensors(folder).items()}
    for path in [] if held else sorted(folder.glob("pytorch_model*.bin")):
        for name, value in held_in(path, "meta").items():
            if isinstance(value, torch.Tensor) and not value.is_floating_point():
                held[name] = str(value.dtype).removeprefix("torch.")
    for name, parameter in model.named_parameters():
        # A body alone is stored without the name that a model with a head has for it, and the reverse.
        of_body = name.removeprefix(f"{getattr(model, 'base_model_prefix', '')}.")
        stored_as = held.get(name) or held.get(of_body, "F32")
        if parameter.is_floating_point() and not stored_as.startswith(("F", "BF")):
            raise BadInput(
                f"{name} is stored as {stored_as} in {folder}, and the model computes in floating-point "
                "numbers; if it is quantised, measure the model that it was made from"
            )


def _safetensors(folder: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The type, by its name in safetensors, and the shape of each weight in the folder's files."""
    held: dict[str, tuple[str, tuple[int, ...]]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with refusing("file of weights", str(path)), safe_open(path, framework="pt") as weights:
            for name in weights.keys():  # noqa: SIM118
                part = weights.get_slice(name)
                held[name] = part.get_dtype(), tuple(part.get_shape())
    return held


def held_in(path: Path, device: str) -> dict[str, Any]:
    """What one of torch's .bin files holds, without unpickling anything else than tensors.

    Raises BadInput if that is not a name for each of them, and whatever torch raises for a damaged file.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Detected pickle protocol")  # an unreadable file is refused
        try:
            held = torch.load(path, map_location=device, weights_only=True)
        except (LookupError, ValueError, AssertionError, struct.error) as error:  # bytes that are no pickle
            raise pickle.UnpicklingError from error
    if not isinstance(held, Mapping):
        raise BadInput(f"{path} holds a {type(held).__name__}, not weights by name; {_SAVED}")
    other = [name for name in held if not isinstance(name, str)]
    if other:
        raise BadInput(f"{path} names a weight {other[0]!r}, not with a word; {_SAVED}")
    return dict(held)


@contextmanager
def explained_by_weights(folder: Path) -> Iterator[None]:
    """If what is within fails because of what an index or a .bin file of the folder holds, raise a BadInput.

    They are not looked at otherwise: `transformers` takes them as they come, and fails far from the cause.
    """
    try:
        yield
    except IsolossError:
        raise
    except BaseException as error:
        if is_failure(error):
            missing_parts(folder)
            weight_shapes(folder)
        raise


def precision_that_fits(names: Sequence[str], device: torch.device, beside: int) -> torch.dtype:
    """float32, unless the models' weights in it and `beside` bytes exceed the memory there is.

    Then the half precision that most of the weights are stored in, if they are stored in one: sums over
    products are in float32 also then. What a hub's names stand for is not known before it is fetched.
    """
    held = [stored_elements(Path(name)) for name in names if Path(name).is_dir()]
    elements = sum(sum(of_model.values()) for of_model in held)
    halves = {each for of_model in held for each in of_model if each in HALVES}
    if not halves or 4 * elements + beside <= free_memory(device):
        return torch.float32
    return max(halves, key=lambda each: sum(of_model.get(each, 0) for of_model in held))


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
    "FROD": _ONE_VECTOR.format("FRoD"),
}
"""By peft's name of their kind, as sentences go on."""
_OF_HEADS = {
    "SEQ_CLS": "with classes of texts",
    "TOKEN_CLS": "with classes of words",
    "QUESTION_ANS": "that answers questions",
    "SEQ_2_SEQ_LM": "with an encoder and a decoder",
}
"""By peft's name of their task."""


def base_of_adapter(name: str) -> str | None:
    """The folder or the hub's name of the model that an adapter is added to; None if it is no adapter.

    A folder may also be named relative to the adapter's own. Raises BadInput if the adapter names none, or if
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
    settings = _settings(folder)
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


def refuse_adapter_of_head(name: str) -> None:
    """Raise BadInput if the adapter was trained for a head other than a language model's."""
    task = str(_settings(Path(name)).get("task_type"))
    if task in _OF_HEADS:
        raise BadInput(
            f"{name} is an adapter of a model {_OF_HEADS[task]} ({task}), whose head is not told by its "
            "folder; save what merge_and_unload returns with save_pretrained, and name that folder"
        )


def _settings(folder: Path) -> dict[str, object]:
    """What an adapter's file says; nothing if that is not JSON."""
    text = read_text(folder / ADAPTER_FILE, "an adapter's settings")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def add_adapter(model: PreTrainedModel, name: str) -> None:
    """Add an adapter's weights to its base model, in place; they alone require gradients.

    Raises BadInput if they are not those of an adapter of this model, or if peft is not installed.
    """
    with refusing("adapter", name), quiet():
        try:
            from peft import PeftConfig, PeftModel, load_peft_weights, set_peft_model_state_dict
        except ImportError as error:
            raise BadInput(
                f"{name} is an adapter, which needs the package peft: pip install 'isoloss[peft]'"
            ) from error
        folder = str(Path(name).resolve())
        settings = PeftConfig.from_pretrained(folder)
        settings.inference_mode = False
        # Not `load_adapter` of transformers: it parts what is shared, and does not know what is trained.
        whole = PeftModel(model, settings, autocast_adapter_dtype=False)
        loaded = set_peft_model_state_dict(whole, load_peft_weights(folder, device="cpu"))
        for part in whole.base_model.children():
            if part is not model:  # the fixed matrices of VeRA
                part.to(model.dtype)
    names: dict[nn.Parameter, set[str]] = {}
    for each, parameter in whole.named_parameters(remove_duplicate=False):
        if parameter.requires_grad:
            names.setdefault(parameter, set()).add(each.removeprefix("base_model.model."))
    if not names:
        raise BadInput(f"the adapter {name} has no weights to measure; merge it into its base model")
    missing = {each.removeprefix("base_model.model.") for each in loaded.missing_keys}
    lacking = [min(each) for each in names.values() if each <= missing]
    if lacking:
        raise BadInput(f"the adapter {name} lacks {min(lacking)}; fetch or copy its folder again")
