"""Another model's weights in a model's place, and what has to be the same for that."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.output_rows import output_rows
from isoloss.curvature.weight_changes import Replacement
from isoloss.errors import BadInput
from isoloss.measurements.models_on_text import load_predicting, prediction_of
from isoloss.measurements.prediction import Head
from isoloss.measurements.task_heads import refuse_other_classes
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
) -> tuple[Replacement, list[str]]:
    """What replaces the weights of `model`, called `name`, by those of the model called `source`.

    Of an adapter, by its base model with the adapter's weights, unless an adapter is to be replaced. Raises
    BadInput for a model whose parameters have other names or shapes, or are not finite; with other classes or
    another vocabulary; for an adapter of another base model or scaling than the one to be replaced; and if
    nothing that differs has a gradient. Where something else differs, or configurations do otherwise, a
    sentence each says so: the weights are measured in this model's configuration.
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
    doubts = []
    if is_adapter and by_adapter:
        _refuse_other_base(source, name, model, other)
    elif constants := _differing_constants(model, other):
        moved = (found.difference(each.name, each.rows) is not None for each in output_rows(model))
        doubts.append(_left_out(source, name, list(constants), alone=not any(moved)))
        found = replace(found, constants=constants)
    if differing := _differing_settings(model, other):
        doubts.append(
            f"the configurations of {source} and {name} differ in {', '.join(differing)}; the weights are "
            f"measured in that of {name}"
        )
    return found, doubts


def replacement_of(
    model: nn.Module, name: str, other: nn.Module, source: str, advice: str = "name a model of the same shape"
) -> Replacement:
    """What replaces the weights of `model`, called `name`, by those of `other`, called `source`.

    That is, the weights that `model` trains, whichever `other` does: which ones `other` trains is set so.
    Raises BadInput, with `advice`, where what is stored has other names or shapes, and for a weight that is
    not finite.
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
        {each: tuple(tensor.shape) for each, tensor in (*of.named_parameters(), *_stored_buffers(of).items())}
        for of in (model, other)
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


def _differing_constants(model: nn.Module, other: nn.Module) -> dict[str, Tensor]:
    """What `other` stores elsewise than `model` and no gradient reaches, by name: the differences."""
    here, there = (
        {each: weight.detach() for each, weight in of.named_parameters() if not weight.requires_grad}
        | _stored_buffers(of)
        for of in (model, other)
    )
    both = [(each, ours, there[each].to(ours)) for each, ours in here.items()]
    return {each: its - ours for each, ours, its in both if not torch.equal(ours, its)}


def _stored_buffers(model: nn.Module) -> dict[str, Tensor]:
    """Those that a checkpoint has, but for whole numbers, which are counts and places, and truth values."""
    stored = model.state_dict().keys()
    named = model.named_buffers()
    return {each: buffer for each, buffer in named if each in stored and buffer.is_floating_point()}


def _left_out(source: str, name: str, constants: list[str], *, alone: bool) -> str:
    """What of a replacement is not predicted. Raises BadInput if that is all of it."""
    more = f" and {len(constants) - 1:,} more" if len(constants) > 1 else ""
    differ = f"{source} and {name} differ in {constants[0]}{more}"
    if alone:
        raise BadInput(
            f"{differ} alone, which no gradient reaches, so that nothing can be predicted; leave "
            "--replacement out, and measure both with isoloss flatness"
        )
    return (
        f"{differ}, too, which no gradient reaches: predictions leave it out; what --check measures of "
        "all parts at once has it"
    )


def _differing_settings(model: PreTrainedModel, other: PreTrainedModel) -> list[str]:
    here, there = (each.config.to_dict() for each in (model, other))
    return sorted(
        each
        for each in here.keys() | there.keys()
        if each not in OF_NO_FUNCTION and "drop" not in each and here.get(each) != there.get(each)
    )
