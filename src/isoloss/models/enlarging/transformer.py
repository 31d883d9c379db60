"""BERT and RoBERTa-PreLayerNorm models, enlarged without changing what they compute (paper B.4, spec 6)."""

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import BertForMaskedLM, PretrainedConfig, PreTrainedModel, RobertaPreLayerNormForMaskedLM

from isoloss.errors import BadInput
from isoloss.models.enlarging.enlargement import Enlargement
from isoloss.models.enlarging.forms import Form, Recipe, SmallModel, exact_form
from isoloss.models.reading import quiet


@torch.no_grad()
def enlarged(model: PreTrainedModel, by: Enlargement, form: Form = exact_form) -> PreTrainedModel:
    """A larger model of the same class that computes the same scores, in the model's precision and mode.

    With `exact_form` scores are equal but for rounding, and post-LN but for what `exact_form` says of
    epsilon; with `paper_form` they are those of the paper's construction. It shares no memory with `model`,
    and takes what it is large beside it. Traces of the Fisher information change as docs/enlarging.md says.

    Raises BadInput for a model that is neither `BertForMaskedLM` nor `RobertaPreLayerNormForMaskedLM`.

    >>> from isoloss.models.shapes import laptop_shape
    >>> from isoloss.models.transformers import PostLayerNormTransformer
    >>> small = PostLayerNormTransformer(laptop_shape(16)).build(words=12, maximum_length=8, seed=0).eval()
    >>> large = enlarged(small, Enlargement(width=2, layers=1))
    >>> tokens = torch.tensor([[1, 5, 2, 7]])
    >>> bool(torch.allclose(large(input_ids=tokens).logits, small(input_ids=tokens).logits, atol=1e-5))
    True
    """
    plan = enlarging_plan(model, by, form)
    copies = {name: parameter.clone() for name, parameter in parameters_by_name(model).items()}
    with quiet():
        large = type(model).from_pretrained(
            None,
            config=plan.config,
            state_dict={step.name: made(step, copies) for step in plan.steps},
            dtype=model.dtype,
            attn_implementation=model.config._attn_implementation,
        )
    return large.to(model.device).train(model.training)


@dataclass(frozen=True)
class Step:
    """One parameter of the large model: its name, its shape, and what it is made of."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    recipe: Recipe


@dataclass(frozen=True)
class EnlargingPlan:
    """The large model's configuration, and a step for each of its parameters, tied ones once."""

    config: PretrainedConfig
    steps: tuple[Step, ...]


def enlarging_plan(model: PreTrainedModel, by: Enlargement, form: Form) -> EnlargingPlan:
    """How `model` is enlarged; holds none of its weights. Raises BadInput as `enlarged` does."""
    if type(model) not in (BertForMaskedLM, RobertaPreLayerNormForMaskedLM):
        raise BadInput(
            f"{type(model).__name__} cannot be enlarged; give a BertForMaskedLM or a "
            "RobertaPreLayerNormForMaskedLM"
        )
    # What counts is whether the weights are one tensor; a configuration may say otherwise.
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    small = SmallModel(model.config.num_hidden_layers, tied)
    config = by.of_config(model.config)
    config.tie_word_embeddings = tied
    with torch.device("meta"):
        large = type(model)(config)
    steps = (
        Step(name, tuple(parameter.shape), model.dtype, form(name, parameter.ndim, small, by))
        for name, parameter in large.named_parameters()
    )
    return EnlargingPlan(config, tuple(steps))


def parameters_by_name(model: PreTrainedModel) -> dict[str, Tensor]:
    """Every parameter, tied ones under each of their names: the large model may have them apart."""
    return dict(model.named_parameters(remove_duplicate=False))


@torch.no_grad()
def made(step: Step, parameters: dict[str, Tensor]) -> Tensor:
    """The large model's parameter; takes the small one's out of `parameters`, which each step needs once.

    So a caller who has let go of the small model never holds both whole. A matrix that does not change is
    not copied; a vector is, since it may be tied in the small model and not in the large one.
    """
    if step.recipe.source is None:
        return torch.full(step.shape, step.recipe.constant, dtype=step.dtype)
    source = parameters.pop(step.recipe.source).detach()
    if step.recipe.divisor > 1:
        source = source / step.recipe.divisor
    copies = [large // small for large, small in zip(step.shape, source.shape, strict=True)]
    return source.repeat(copies) if max(copies) > 1 or source.ndim == 1 else source
