"""Another model's weights in a model's place, and what has to be the same for that."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.weight_changes import Replacement
from isoloss.errors import BadInput
from isoloss.measurements.models_on_text import load_predicting, prediction_of, refuse_other_classes
from isoloss.measurements.task_heads import Head
from isoloss.models.adapters import merge_adapter
from isoloss.models.loading import LanguageObjective
from isoloss.models.tokenizer import load_tokenizer
from isoloss.results.checkpoint import ADAPTER_FILE

OF_NO_FUNCTION = frozenset(
    (
        *("_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version", "use_cache"),
        *("id2label", "label2id", "problem_type", "finetuning_task", "task_specific_params"),
        *("initializer_range", "output_attentions", "output_hidden_states", "return_dict", "torchscript"),
        *("pad_token_id", "bos_token_id", "eos_token_id", "tokenizer_class", "model_type"),
        *("gradient_checkpointing", "quantization_config"),
    )
)
"""Settings of a configuration that change no score in evaluation; nor does any kind of dropout."""


def replacement_by(
    source: str, name: str, model: PreTrainedModel, objective: LanguageObjective | None
) -> tuple[Replacement, str | None]:
    """What replaces the weights of `model`, called `name`, by those of the model called `source`.

    Of an adapter, by its base model with the adapter's weights, unless an adapter is to be replaced. Raises
    BadInput for a model whose parameters have other names or shapes, or are not finite; with other classes or
    another vocabulary; and for an adapter of another base model or scaling than the one to be replaced. Where
    configurations differ otherwise, a sentence says so: the weights are measured in this model's.
    """
    predicted = prediction_of(source, objective)
    if isinstance(predicted, Head):
        refuse_other_classes([name, source], predicted)
    _refuse_other_vocabulary(source, name)
    other = load_predicting(source, predicted, model.dtype)
    is_adapter, by_adapter = ((Path(each) / ADAPTER_FILE).is_file() for each in (name, source))
    if by_adapter and not is_adapter:
        merge_adapter(other)
    advice = "name a model of the same shape"
    if is_adapter and not by_adapter:
        advice = "name another adapter, or merge this one into its base model and name the merged folder"
    found = replacement_of(model, name, other, source, advice)
    if is_adapter and by_adapter:
        _refuse_other_base(source, name, model, other)
    differing = _differing_settings(model, other)
    doubt = (
        f"the configurations of {source} and {name} differ in {', '.join(differing)}; the weights are "
        f"measured in that of {name}"
    )
    return found, doubt if differing else None


def replacement_of(
    model: nn.Module, name: str, other: nn.Module, source: str, advice: str = "name a model of the same shape"
) -> Replacement:
    """What replaces the weights of `model`, called `name`, by those of `other`, called `source`.

    That is, the weights that `model` trains, whichever `other` does: which ones `other` trains is set so.
    Raises BadInput, with `advice`, where parameters have other names or shapes, and if any is not finite.
    """
    _refuse_other_shapes(source, name, model, other, advice)
    trained = trainable_parameters(model)
    for each, parameter in other.named_parameters():
        parameter.requires_grad_(each in trained)
    for each, weight in trainable_parameters(other).items():
        if not weight.isfinite().all():
            raise BadInput(
                f"{each} of {source} holds numbers that are not finite: its training diverged, or its file "
                "is damaged; name an earlier checkpoint, or fetch or copy it again"
            )
    return Replacement.by(other, source)


def _refuse_other_vocabulary(source: str, name: str) -> None:
    """Where both have a tokenizer."""
    try:
        here, there = (load_tokenizer(each).get_vocab() for each in (name, source))
    except BadInput:
        return
    if here != there:
        raise BadInput(
            f"{name} and {source} have different vocabularies; name a model that shares this one's"
        )


def _refuse_other_shapes(source: str, name: str, model: nn.Module, other: nn.Module, advice: str) -> None:
    here, there = (
        {each: tuple(weight.shape) for each, weight in of.named_parameters()} for of in (model, other)
    )
    for each in [*here, *there]:
        ours, its = here.get(each, "no such tensor"), there.get(each, "no such tensor")
        if ours != its:
            raise BadInput(
                f"{source} cannot replace the weights of {name}: {each} is {its} there and {ours} here; "
                f"{advice}"
            )


def _refuse_other_base(source: str, name: str, model: nn.Module, other: nn.Module) -> None:
    """What adapters leave alone, and by how much they multiply what they add, is not replaced."""
    here, there = map(_beside_the_adapter, (model, other))
    for each in [*here, *there]:
        ours, its = here.get(each), there.get(each)
        if ours is None or its is None or not torch.equal(ours, its.to(ours)):
            raise BadInput(
                f"{source} cannot replace the weights of the adapter {name}: {each} is another one there, "
                "and that adapter leaves it as it is; merge both into their base models, and name the merged "
                "folders"
            )


def _beside_the_adapter(model: nn.Module) -> Mapping[str, Tensor]:
    """Frozen weights and buffers, and the scaling of each adapted layer, by name."""
    frozen = {each: weight for each, weight in model.named_parameters() if not weight.requires_grad}
    scaled = {
        f"the scaling of {each}": torch.tensor(list(module.scaling.values()))
        for each, module in model.named_modules()
        if isinstance(getattr(module, "scaling", None), dict)
    }
    return {**frozen, **dict(model.named_buffers()), **scaled}


def _differing_settings(model: PreTrainedModel, other: PreTrainedModel) -> list[str]:
    here, there = (each.config.to_dict() for each in (model, other))
    return sorted(
        each
        for each in here.keys() | there.keys()
        if each not in OF_NO_FUNCTION and "drop" not in each and here.get(each) != there.get(each)
    )
