"""The configuration in a model's folder, also where it does not say of what type the model is."""

import json
from pathlib import Path
from typing import Any

from safetensors import safe_open
from transformers import AutoConfig, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_PRETRAINING_MAPPING_NAMES,
    MODEL_MAPPING_NAMES,
)

from isoloss.errors import BadInput
from isoloss.files import read_text

_CLASSES = (
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_PRETRAINING_MAPPING_NAMES,
    MODEL_MAPPING_NAMES,
)
_UNPREFIXED = {"h.0.attn.c_attn.weight": "gpt2", "transformer.h.0.attn.c_attn.weight": "gpt2"}
"""Weights that tell a type whose names do not begin with it."""


def configuration_in(folder: Path) -> Any:
    """The folder's config.json as a configuration of `transformers`; code in the folder is never run.

    Where it lacks `model_type`, as files of older libraries do, the type is that of the class under
    `architectures`, or else what the weights' names begin with. Raises BadInput where neither tells, and
    whatever `transformers` raises of a file that it cannot read.
    """
    try:
        content = json.loads(read_text(folder / "config.json", "a configuration"))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise BadInput(
            f"{folder / 'config.json'} is not a JSON object; write the model's configuration there"
        )
    if content.get("model_type"):
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    model_type = _type_of_class(content) or _type_of_weights(folder)
    if model_type is None:
        raise BadInput(
            f"{folder / 'config.json'} does not say of what type the model is; add it, for example "
            '"model_type": "bert"'
        )
    return AutoConfig.for_model(model_type, **content)


def lacks_head(folder: Path, model: PreTrainedModel) -> bool:
    """Whether the folder's safetensors hold none of the weights that `model` has beside its base model.

    Tells an encoder saved by itself without reading a weight; False where there are other files only.
    """
    base = f"{model.base_model_prefix}."
    head = {name for name in model.state_dict() if not name.startswith(base)}
    names = _weight_names(folder)
    return bool(names) and bool(head) and head.isdisjoint(names)


def _type_of_class(content: dict[str, Any]) -> str | None:
    named = set(content.get("architectures") or ())
    found = {kind for classes in _CLASSES for kind, name in classes.items() if name in named}
    return found.pop() if len(found) == 1 else None


def _type_of_weights(folder: Path) -> str | None:
    names = _weight_names(folder)
    for name in names:
        if name in _UNPREFIXED:
            return _UNPREFIXED[name]
    beginnings = {name.split(".")[0] for name in names}
    spelled = beginnings | {each.replace("_", "-") for each in beginnings}
    found = [kind for kind in spelled if kind in CONFIG_MAPPING_NAMES]
    return found[0] if len(found) == 1 else None


def _weight_names(folder: Path) -> list[str]:
    """The names in the folder's safetensors; none where it has other files only."""
    names: list[str] = []
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as weights:
            names += weights.keys()
    return names
