"""Adapters of peft: folders with weights that are added to those of a base model; see `base_of_adapter`."""

import re
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn
from transformers import PreTrainedModel

from isoloss.errors import BadInput
from isoloss.models.model_files import quiet, refusing
from isoloss.models.names import settings_of_adapter
from isoloss.results.checkpoint import ADAPTER_FILE

_BEFORE = "base_model.model."
"""What peft puts before the names of weights."""
_CLASSES = re.compile(r"(?:^|\.)(?:score|classifier|classification_head)\.(?:out_proj\.)?weight$")
"""What gives the scores of classes in heads of `transformers`."""


def task_of_adapter(name: str) -> str | None:
    """The task that an adapter was trained for, as peft calls it, such as SEQ_CLS; None if it does not say.

    Raises BadInput for one that answers questions.
    """
    task = settings_of_adapter(Path(name)).get("task_type")
    if task == "QUESTION_ANS":
        raise BadInput(
            f"{name} is an adapter of a model that answers questions (QUESTION_ANS), whose head is not "
            "measured; measure its base model"
        )
    return task if isinstance(task, str) else None


def stored_in_adapter(name: str) -> dict[str, Tensor]:
    """The weights that an adapter stores, by their names in the model that it is added to.

    Raises BadInput if there are none, or if peft is not installed.
    """
    return {each.removeprefix(_BEFORE): weight for each, weight in _weights(name).items()}


def number_of_classes(stored: Mapping[str, Tensor]) -> int | None:
    """How many classes the head has among the weights that an adapter stores; None if there is no head.

    >>> import torch
    >>> number_of_classes({"classifier.weight": torch.zeros(3, 8), "classifier.bias": torch.zeros(3)})
    3
    """
    return next((len(weight) for each, weight in stored.items() if _CLASSES.search(each)), None)


def _weights(name: str) -> dict[str, Tensor]:
    folder = str(Path(name).resolve())
    with refusing("adapter", name), quiet():
        try:
            from peft import load_peft_weights
        except ImportError as error:
            raise BadInput(
                f"{name} is an adapter, which needs the package peft: pip install 'isoloss[peft]'"
            ) from error
        if not any(Path(folder).glob("adapter_model.*")):  # peft would look for a hub's model of that name
            raise BadInput(f"{name} holds no adapter_model.safetensors; fetch or copy that file too")
        weights: dict[str, Tensor] = load_peft_weights(folder, device="cpu")
    return weights


def add_adapter(model: PreTrainedModel, name: str) -> None:
    """Add an adapter's weights to its base model, in place; they alone require gradients.

    Raises BadInput if they are not those of an adapter of this model, or if peft is not installed.
    """
    weights = _weights(name)
    with refusing("adapter", name), quiet():
        from peft import PeftConfig, PeftModel, set_peft_model_state_dict

        settings = PeftConfig.from_pretrained(str(Path(name).resolve()))
        _refuse_beyond_stored(settings, weights)
        settings.inference_mode = False
        # Not `load_adapter` of transformers: it parts what is shared, and does not know what is trained.
        whole = PeftModel(model, settings, autocast_adapter_dtype=False)
        loaded = set_peft_model_state_dict(whole, weights)
        for part in whole.base_model.children():
            if part is not model:  # the fixed matrices of VeRA
                part.to(model.dtype)
    names: dict[nn.Parameter, set[str]] = {}
    for each, parameter in whole.named_parameters(remove_duplicate=False):
        if parameter.requires_grad:
            names.setdefault(parameter, set()).add(each.removeprefix(_BEFORE))
    if not names:
        raise BadInput(f"the adapter {name} has no weights to measure; merge it into its base model")
    missing = {each.removeprefix(_BEFORE) for each in loaded.missing_keys}
    lacking = [min(each) for each in names.values() if each <= missing]
    if lacking:
        raise BadInput(f"the adapter {name} lacks {min(lacking)}; fetch or copy its folder again")


def _refuse_beyond_stored(settings: object, weights: Mapping[str, Tensor]) -> None:
    """Raise BadInput for ranks that no weight of an adapter has: matrices of them would be made first."""
    most = max((size for weight in weights.values() for size in weight.shape), default=0)
    ranks = [getattr(settings, "r", 0), *(getattr(settings, "rank_pattern", None) or {}).values()]
    for rank in ranks:
        if isinstance(rank, int) and rank > most:
            raise BadInput(
                f"{ADAPTER_FILE} gives a rank of {rank:,}, which none of the adapter's weights has; mend it"
            )


def merge_adapter(model: PreTrainedModel) -> None:
    """Put what `add_adapter` made of a base model's weights in their place; all of them require gradients.

    As `merge_and_unload` of peft does, for which one would have to keep the object that wraps the model.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    replaced = None
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if replaced is not None and name.startswith(f"{replaced}."):
            continue
        if hasattr(module, "unload_and_optionally_merge_module"):
            merged = module.unload_and_optionally_merge_module(True, False, None)
        elif isinstance(module, BaseTunerLayer):
            module.merge()
            merged = module.get_base_layer()
        else:
            continue
        replaced, (parent, _, last) = name, name.rpartition(".")
        setattr(model.get_submodule(parent), last, merged)
    model.requires_grad_(True)
