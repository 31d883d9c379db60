"""Any masked or causal language model of Hugging Face, from a folder or by a hub's name, to be measured."""

import json
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import safe_open
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_PRETRAINING_MAPPING_NAMES,
    MODEL_MAPPING_NAMES,
)

import isoloss.models.lstm  # noqa: F401 - makes its classes known to `transformers`
from isoloss.errors import BadInput
from isoloss.files import read_text
from isoloss.models.loading import quiet, refuse_unreachable_hub, refusing

_CLASSES = (
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_PRETRAINING_MAPPING_NAMES,
    MODEL_MAPPING_NAMES,
)
_UNPREFIXED = {"h.0.attn.c_attn.weight": "gpt2", "transformer.h.0.attn.c_attn.weight": "gpt2"}
"""Weights that tell a type whose names do not begin with it."""

Prediction = Literal["masked", "causal"]

_MASKED_CLASSES = set(MODEL_FOR_MASKED_LM_MAPPING_NAMES.values())
_CAUSAL_CLASSES = set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())


def load_any_language_model(
    name: str, prediction: Prediction | None = None, dtype: torch.dtype = torch.float32
) -> tuple[PreTrainedModel, Prediction]:
    """A model in evaluation mode on the CPU, and what it predicts, which its configuration says.

    `prediction` overrides the configuration. Raises BadInput where there is no model of that name, where it
    has no trained language head, needs code of its own, reads both ways though it should be causal, or
    where its configuration does not say what it predicts.
    """
    predicted = what_is_predicted(name, prediction)
    kind = AutoModelForMaskedLM if predicted == "masked" else AutoModelForCausalLM
    with refusing(f"{predicted} language model", name), quiet():
        model, found = kind.from_pretrained(
            name,
            config=_read_config(name),
            local_files_only=Path(name).is_dir(),
            dtype=dtype,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # refused below, where it is said which
        )
    _refuse_other_weights(name, found)
    if dtype == torch.float64 and hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")  # the others multiply in single precision at most
    return model.eval(), predicted


def _refuse_other_weights(name: str, found: dict[str, Any]) -> None:
    """Raise BadInput where weights are missing, or of another shape than the configuration says."""
    if found["mismatched_keys"]:
        weight, held, expected = min(found["mismatched_keys"])
        raise BadInput(
            f"the weights and the configuration of {name} do not fit: {weight} is {_shape(held)}, where the "
            f"configuration has {_shape(expected)}; mend config.json, or take the weights that belong to it"
        )
    if found["missing_keys"]:
        missing, unread = min(found["missing_keys"]), sorted(found["unexpected_keys"])
        hint = f"; if that is its {unread[0]}, which nothing takes, rename it" if unread else ""
        raise BadInput(
            f"{name} has no trained language head: it lacks {missing}; give a model with one{hint}"
        )


def _shape(size: tuple[int, ...]) -> str:
    return " by ".join(map(str, size))


def what_is_predicted(name: str, prediction: Prediction | None = None) -> Prediction:
    """What the model of that name predicts, by its configuration, without reading its weights.

    `prediction` overrides the configuration. Raises BadInput where there is no model of that name, where it
    reads both ways though it should be causal, or where its type is of neither kind.
    """
    config = _read_config(name)
    predicted = prediction or _prediction(config, name)
    reads_both_ways = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not _looks_back_only(config)
    if predicted == "causal" and reads_both_ways:
        raise BadInput(f"{name} reads sentences both ways and would see the next token; measure it as masked")
    return predicted


def refuse_bare_encoder(name: str) -> None:
    """Raise BadInput where a folder holds a masked model's encoder alone, without reading its weights."""
    if not Path(name).is_dir():
        return
    with refusing("masked language model", name), quiet(), torch.device("meta"):
        whole = AutoModelForMaskedLM.from_config(_read_config(name))
    if lacks_head(Path(name), whole):
        raise BadInput(f"{name} has no trained language head: it is an encoder alone; give a model with one")


def longest_sentence(model: PreTrainedModel) -> int | None:
    """How many tokens the model's positions are for; None where nothing says so.

    >>> from transformers import RobertaConfig, RobertaForMaskedLM
    >>> longest_sentence(RobertaForMaskedLM(RobertaConfig(
    ...     vocab_size=9, hidden_size=4, num_attention_heads=1, num_hidden_layers=1, intermediate_size=4,
    ...     max_position_embeddings=12)))
    10
    """
    config = model.config.get_text_config()
    positions: int | None = getattr(config, "max_position_embeddings", None)
    positions = positions or getattr(config, "n_positions", None)
    if positions is None or positions < 1:  # XLNet says -1 for as many as there are
        return None
    # Some families, RoBERTa's among them, count positions from the padding's own place on.
    paddings = [
        int(module.padding_idx)
        for name, module in model.named_modules()
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None
    ]
    return positions - paddings[0] - 1 if paddings else positions


def number_of_tokens(model: PreTrainedModel) -> int:
    """How many tokens the model knows: those of its embeddings, or what its configuration says."""
    embeddings = model.get_input_embeddings()
    if isinstance(embeddings, nn.Embedding):
        return embeddings.num_embeddings
    return int(model.config.get_text_config().vocab_size)


def _read_config(name: str) -> Any:
    folder = Path(name)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise BadInput(f"{name} holds no model: it has no config.json; name a checkpoint's folder")
    elif folder.exists():
        raise BadInput(f"{name} is a file; name the folder of a model, as save_pretrained writes it")
    elif name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise BadInput(f"there is no folder {name}; name a model's folder, or its name on a hub")
    else:
        refuse_unreachable_hub(name)
    with refusing("language model", name), quiet():
        if folder.is_dir():
            return configuration_in(folder)
        return AutoConfig.from_pretrained(name, trust_remote_code=False)


def _prediction(config: Any, name: str) -> Prediction:
    if getattr(config, "is_encoder_decoder", False):
        raise BadInput(f"{name} is an encoder and a decoder; only masked and causal models are measured")
    for architecture in config.architectures or ():
        masked, causal = architecture in _MASKED_CLASSES, architecture in _CAUSAL_CLASSES
        if masked and causal:  # XLM's one class is either, as its configuration says
            return "causal" if _looks_back_only(config) else "masked"
        if masked or architecture.endswith("ForMaskedLM"):
            return "masked"
        if causal or architecture.endswith(("ForCausalLM", "LMHeadModel")):
            return "causal"
    masked = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    if not masked and config.model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise BadInput(
            f"{name} is of the type {config.model_type}, of which transformers has no masked and no causal "
            "language model; convert it to one, or take another checkpoint"
        )
    # A type that is either is read both ways, unless its configuration says otherwise.
    return "masked" if masked and not _looks_back_only(config) else "causal"


def _looks_back_only(config: Any) -> bool:
    """Whether a model of a type that reads both ways was made to look back only."""
    return bool(getattr(config, "is_decoder", False) or getattr(config, "causal", False))


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
