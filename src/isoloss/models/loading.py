"""Loads Hugging Face masked and causal language models, from folders or by their names on a hub."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from isoloss.errors import BadInput
from isoloss.models.folder_configuration import (
    about_missing,
    is_of_body,
    lacks_head,
    of_further_layer,
    of_gguf,
    read_config,
    refuse_unreachable_hub,
    renamed_weights,
)
from isoloss.models.model_files import (
    MEND,
    explained_by_weights,
    quiet,
    refuse_whole_numbers,
    refusing,
    sized_by_weights,
)
from isoloss.models.names import base_of_adapter, refuse_irregular
from isoloss.results.checkpoint import refuse_damaged

LanguageObjective = Literal["masked", "causal"]
"""What a language model is trained to predict: masked tokens, or the next one."""

_MASKED_CLASSES = set(MODEL_FOR_MASKED_LM_MAPPING_NAMES.values())
_CAUSAL_CLASSES = set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())
_OTHER_HEAD = re.compile("Classification|QuestionAnswering|MultipleChoice|NextSentence|Reward|ValueHead")
"""Of classes with another head: with tied embeddings a language head could be made of their weights too."""


def load_masked_language_model(folder: Path) -> PreTrainedModel:
    """The model in a checkpoint folder, as stored, in evaluation mode, on the CPU; never uses the network.

    Raises BadInput if there is no such folder, and as `load_model` does.
    """
    refuse_damaged(folder)
    if not (folder / "config.json").is_file():
        raise BadInput(f"{folder} holds no model: it has no config.json; name a checkpoint's folder")
    config = read_config(str(folder))
    return load_model(str(folder), AutoModelForMaskedLM, config, "masked language model", "auto")


def load_causal_language_model(
    name: str, gguf_file: str | None = None, dtype: torch.dtype = torch.float32
) -> PreTrainedModel:
    """A causal model in evaluation mode on the CPU, from a folder or else by its name on a hub.

    Accepts whatever `AutoModelForCausalLM.from_pretrained` can load; `gguf_file` names a GGUF file in the
    folder, which needs the packages `gguf` and `accelerate`. Raises BadInput if there is no such model, or
    weights are missing; Damaged if it is a checkpoint of ours that is not what was written.
    """
    is_here = Path(name).is_dir()
    if is_here:
        refuse_damaged(Path(name))
        refuse_irregular(Path(name))
    else:
        refuse_unreachable_hub(name)
    settings = {"attn_implementation": "sdpa", "dtype": dtype, "output_loading_info": True}
    packed = {} if gguf_file is None else {"gguf_file": gguf_file, **of_gguf()}
    with refusing("causal language model", name), quiet(), bounded(name):
        model, found = AutoModelForCausalLM.from_pretrained(
            name, local_files_only=is_here, **settings, **packed
        )
    if found["missing_keys"]:
        missing = min(found["missing_keys"])
        raise BadInput(f"the model {name} lacks {missing}: it is no complete causal language model")
    whole: PreTrainedModel = model.eval()
    return whole


def load_any_language_model(
    name: str, dtype: torch.dtype = torch.float32
) -> tuple[PreTrainedModel, LanguageObjective]:
    """A language model in evaluation mode on the CPU, and what it predicts; see `what_is_predicted`.

    Raises BadInput as that and `load_model` do.
    """
    predicted = what_is_predicted(name)
    config = read_config(base_of_adapter(name) or name)
    kind = f"{predicted} language model"
    return load_model(name, language_model_class(predicted), config, kind, dtype), predicted


def language_model_class(objective: LanguageObjective) -> Any:
    """The class of `transformers` that loads such models, and builds them from configurations."""
    return AutoModelForMaskedLM if objective == "masked" else AutoModelForCausalLM


def load_model(
    name: str,
    model_class: Any,
    config: Any,
    kind: str,
    dtype: torch.dtype | Literal["auto"] = torch.float32,
) -> PreTrainedModel:
    """The model of that name as one of the class, in evaluation mode on the CPU; `kind` is what it is called.

    With "auto" its precision is that in which it is stored.

    Of an adapter, it is the base model, of which `config` then is, with the weights that the adapter stores;
    they alone require gradients. Raises BadInput for what is no such model, weights that are missing or do
    not fit the configuration, and code of its own; Damaged if it is a checkpoint of ours that is not what
    was written.
    """
    base = base_of_adapter(name)
    folder = base or name
    is_here = Path(folder).is_dir()
    if is_here:
        refuse_damaged(Path(folder))
    settings = {"dtype": dtype, "output_loading_info": True}
    settings |= {"ignore_mismatched_sizes": True}  # refused below, naming them
    with refusing(kind, folder), quiet(), bounded(folder):
        refuse_without_layers(folder, config)
        model, found = model_class.from_pretrained(
            folder, config=config, local_files_only=is_here, **settings
        )
        if found["missing_keys"] and is_here:
            weights = renamed_weights(Path(folder), model)
            if weights is not None:
                model, found = type(model).from_pretrained(
                    None, config=model.config, state_dict=weights, **settings
                )
        if base is not None and (found["missing_keys"] or found["mismatched_keys"]):
            _leave_to_adapter(name, base, model, found)
        refuse_other_weights(folder, model, found)
    if base is not None:
        from isoloss.models.adapters import add_adapter

        add_adapter(model, name)
    with_experts_apart(model)
    loaded: PreTrainedModel = model.eval()
    return loaded


def refuse_without_layers(folder: str, config: Any) -> None:
    """Raise BadInput if the configuration says that the model in `folder` has no layers."""
    if getattr(config.get_text_config(), "num_hidden_layers", 1) < 1:
        raise BadInput(f"{folder} is a model without layers, by its num_hidden_layers; {MEND}")


def _leave_to_adapter(name: str, base: str, model: PreTrainedModel, found: dict[str, Any]) -> None:
    """Take what an adapter stores from what its base model lacks. Raises BadInput if its head lacks more."""
    from isoloss.models.adapters import stored_in_adapter

    stored = stored_in_adapter(name)
    found["mismatched_keys"] = {each for each in found["mismatched_keys"] if each[0] not in stored}
    found["missing_keys"] = {each for each in found["missing_keys"] if each not in stored}
    of_head = [each for each in found["missing_keys"] if not is_of_body(each, model)]
    if of_head:
        raise BadInput(
            f"neither the adapter {name} nor its base model {base} has {min(of_head)}, which its head reads; "
            "save what merge_and_unload returns of the trained model, and name that folder"
        )


def with_experts_apart(model: PreTrainedModel) -> None:
    """Let a mixture's experts be computed one after another.

    The graph then shows which words each expert reads; other implementations hide it, and compute in float32.
    """
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")


@contextmanager
def bounded(name: str) -> Iterator[None]:
    """As `sized_by_weights` and `explained_by_weights`; a hub's model is not here yet, and is as it is."""
    if not Path(name).is_dir():
        yield
        return
    with sized_by_weights(Path(name)), explained_by_weights(Path(name)):
        yield


def refuse_other_weights(name: str, model: PreTrainedModel, found: dict[str, Any]) -> None:
    """Raise BadInput if weights are missing, of further layers, or not of the configured shape or kind."""
    misfit = f"the weights and the configuration of {name} do not fit"
    if found["mismatched_keys"]:
        weight, held, expected = min(found["mismatched_keys"])
        raise BadInput(
            f"{misfit}: {weight} is {_shape(held)}, where the configuration has {_shape(expected)}; {MEND}"
        )
    if found["missing_keys"]:
        missing = found["missing_keys"]
        advice = about_missing(Path(name), model, missing, found["unexpected_keys"])
        of_body = [each for each in model.state_dict() if each in missing and is_of_body(each, model)]
        if of_body:
            raise BadInput(f"{misfit}: the weights lack {of_body[0]}, which config.json asks for; {advice}")
        of_language = type(model).__name__ in _MASKED_CLASSES | _CAUSAL_CLASSES
        head = "language head" if of_language else f"head of a {type(model).__name__}"
        raise BadInput(f"{name} has no trained {head}: it lacks {min(missing)}; {advice}")
    further = of_further_layer(found["unexpected_keys"], model)
    if further is not None:
        raise BadInput(f"{misfit}: {further} is of a layer that config.json does not ask for; {MEND}")
    refuse_whole_numbers(Path(name), model)


def _shape(size: tuple[int, ...]) -> str:
    return " by ".join(map(str, size)) or "a single number"


def what_is_predicted(name: str, objective: LanguageObjective | None = None) -> LanguageObjective:
    """What the language model of that name predicts by its configuration, without reading its weights.

    `objective` overrides the configuration. Raises BadInput if there is no model of that name, if it is
    bidirectional although it should be causal, or if its type is neither masked nor causal.
    """
    name = base_of_adapter(name) or name
    config = read_config(name)
    with refusing("language model", name):
        predicted = objective or _predicted(config, name)
        looks_back = _looks_back_only(config)
    reads_both_ways = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not looks_back
    if predicted == "causal" and reads_both_ways:
        raise BadInput(f"{name} reads sentences both ways and would see the next token; measure it as masked")
    if objective is not None and type(config) not in language_model_class(objective)._model_mapping:
        raise BadInput(
            f"{name} is of the type {config.model_type}, of which transformers has no {objective} language "
            "model; leave out what it is to predict, and its configuration decides"
        )
    return predicted


def refuse_bare_encoder(name: str) -> None:
    """Raise BadInput if a folder holds only a masked model's encoder, without reading its weights."""
    name = base_of_adapter(name) or name
    if not Path(name).is_dir():
        return
    refuse_damaged(Path(name))
    with refusing("masked language model", name), quiet(), bounded(name):
        with torch.device("meta"):
            whole = AutoModelForMaskedLM.from_config(read_config(name))
        bare = lacks_head(Path(name), whole)
    if bare:
        raise BadInput(f"{name} has no trained language head: it is an encoder alone; give a model with one")


def _predicted(config: Any, name: str) -> LanguageObjective:
    if getattr(config, "is_encoder_decoder", False):
        raise BadInput(f"{name} is an encoder and a decoder; only masked and causal models are measured")
    for architecture in config.architectures or ():
        masked, causal = architecture in _MASKED_CLASSES, architecture in _CAUSAL_CLASSES
        if masked and causal:  # XLM's single class is either, according to its configuration
            return "causal" if _looks_back_only(config) else "masked"
        if masked or architecture.endswith("ForMaskedLM"):
            return "masked"
        if causal or architecture.endswith(("ForCausalLM", "LMHeadModel")):
            return "causal"
        if _OTHER_HEAD.search(architecture):
            raise BadInput(
                f"{name} is a {architecture}, whose own head predicts no tokens; measure the language model "
                "that it was made from"
            )
    masked = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    if not masked and config.model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise BadInput(
            f"{name} is of the type {config.model_type}, of which transformers has no masked and no causal "
            "language model; convert it to one, or take another checkpoint"
        )
    # A type that may be either is loaded both ways, unless its configuration says otherwise.
    return "masked" if masked and not _looks_back_only(config) else "causal"


def _looks_back_only(config: Any) -> bool:
    """Whether a model of a bidirectional type is configured as causal."""
    return bool(getattr(config, "is_decoder", False) or getattr(config, "causal", False))
