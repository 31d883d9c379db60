"""BERT and RoBERTa-PreLayerNorm models, enlarged without changing what they compute (paper B.4).

With k copies side by side, every vector inside the model is k times repeated. A weight matrix that reads one
sums k equal terms, so it is tiled and divided by k; biases and gains are tiled. So far the two forms agree.
"""

import re
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from transformers import BertForMaskedLM, PretrainedConfig, PreTrainedModel, RobertaPreLayerNormForMaskedLM

from isoloss.errors import BadInput
from isoloss.models.loading import quiet
from isoloss.models.shapes import Shape


@dataclass(frozen=True)
class Enlargement:
    """`width` times as wide, with as many more heads and feed-forward units, and `layers` layers more.

    Heads keep their size. Raises BadInput for a factor that is no integer of at least 1, or for layers that
    are no integer of at least 0.

    >>> Enlargement(width=3, layers=2).of(Shape(128, 2, 4, 512))
    Shape(width=384, heads=6, layers=6, inner_width=1536)
    """

    width: int = 1
    layers: int = 0

    def __post_init__(self) -> None:
        if type(self.width) is not int or self.width < 1:
            raise BadInput(
                f"the width can be multiplied by an integer of at least 1, not {self.width}: whole copies "
                "are set side by side"
            )
        if type(self.layers) is not int or self.layers < 0:
            raise BadInput(f"the layers to add must be an integer of at least 0, not {self.layers}")

    def of(self, shape: Shape) -> Shape:
        """The enlarged shape."""
        return Shape(
            self.width * shape.width,
            self.width * shape.heads,
            shape.layers + self.layers,
            self.width * shape.inner_width,
        )

    def parameters(self, shape: Shape, vocabulary: int) -> int:
        """Weights of the matrices of the enlarged model, which all but a few of its parameters are.

        >>> Enlargement(width=2).parameters(Shape(8, 2, 1, 32), vocabulary=10)
        3232
        """
        large = self.of(shape)
        of_a_layer = 4 * large.width**2 + 2 * large.width * large.inner_width
        return large.layers * of_a_layer + vocabulary * large.width

    def of_config(self, config: PretrainedConfig) -> PretrainedConfig:
        """A copy of a BERT or RoBERTa-PreLayerNorm configuration with the enlarged shape."""
        enlarged = deepcopy(config)
        enlarged.hidden_size *= self.width
        enlarged.num_attention_heads *= self.width
        enlarged.intermediate_size *= self.width
        enlarged.num_hidden_layers += self.layers
        return enlarged


def enlargement_between(small: Shape, large: Shape) -> Enlargement:
    """What makes `small` as wide and as deep as `large`; inner widths need not agree.

    Raises BadInput where no integer factor does, where layers would have to go, or where head sizes differ.

    >>> enlargement_between(Shape(128, 2, 4, 512), Shape(1920, 30, 20, 7680))
    Enlargement(width=15, layers=16)
    """
    if large.width % small.width or large.layers < small.layers or large.head_size != small.head_size:
        raise BadInput(
            f"{small} cannot be tiled into {large}: the width must be a multiple, the head size the same, "
            "and the layers at least as many"
        )
    return Enlargement(large.width // small.width, large.layers - small.layers)


_LAYER = re.compile(r"\.encoder\.layer\.(\d+)\.")
_LAST_NORM = re.compile(r"\.encoder\.layer\.(\d+)\.output\.LayerNorm\.")
"""The norm that ends a post-LN layer; pre-LN layers have none."""
_HEAD_NORMS = ("cls.predictions.transform.LayerNorm.", "lm_head.layer_norm.")


@dataclass(frozen=True)
class SmallModel:
    """How many layers it has, and whether its input and output embeddings are one tensor."""

    layers: int
    tied: bool


@dataclass(frozen=True)
class Recipe:
    """One tensor of the large model: `source` of the small one, tiled and divided, or else a constant."""

    source: str | None
    divisor: int = 1
    constant: float = 0.0


@runtime_checkable
class Form(Protocol):
    """A way to enlarge, parameter by parameter."""

    def __call__(self, name: str, dimensions: int, small: SmallModel, by: Enlargement) -> Recipe:
        """The recipe of the large model's parameter `name`, which has so many dimensions."""
        ...


def paper_form(name: str, dimensions: int, small: SmallModel, by: Enlargement) -> Recipe:
    """B.4.2 as printed: matrices and embeddings tiled and divided by k, vectors tiled, added blocks zero.

    It is not the identity: (1) the norm of the embeddings meets its epsilon at 1/k² of the variance, so that
    it acts as k² times as large; (2) post-LN, the norms of added blocks, whose gain is 1 and bias
    0, normalise anew what the small model's last gain and bias made (docs/enlarging.md).

    >>> small, by = SmallModel(layers=2, tied=True), Enlargement(width=3, layers=1)
    >>> paper_form("bert.encoder.layer.0.output.dense.weight", 2, small, by)
    Recipe(source='bert.encoder.layer.0.output.dense.weight', divisor=3, constant=0.0)
    >>> paper_form("bert.encoder.layer.2.output.LayerNorm.weight", 1, small, by)
    Recipe(source=None, divisor=1, constant=1.0)
    """
    layer = _LAYER.search(name)
    if layer and int(layer[1]) >= small.layers:
        return Recipe(None, constant=float(name.endswith("LayerNorm.weight")))
    return Recipe(name, divisor=by.width if dimensions == 2 else 1)


def exact_form(name: str, dimensions: int, small: SmallModel, by: Enlargement) -> Recipe:
    """The paper's form with the two places mended where it changes the function.

    (1) Embeddings are tiled undivided, which the norm after them reads as if nothing had changed; where the
    output matrix is the same tensor, the gain and bias of the norm before it are divided by k in its stead.
    (2) Post-LN, the small model's last gain and bias move to the last added norm, and all between have gain
    1 and bias 0. A norm of what is normalised is the identity but for its epsilon: where the last block's
    sum has variance v, its vector is off by the relative amount epsilon (1 - v) / 2v, and by nothing else.

    >>> small, by = SmallModel(layers=2, tied=True), Enlargement(width=3, layers=1)
    >>> exact_form("bert.embeddings.word_embeddings.weight", 2, small, by).divisor
    1
    >>> exact_form("bert.encoder.layer.2.output.LayerNorm.weight", 1, small, by).source
    'bert.encoder.layer.1.output.LayerNorm.weight'
    """
    norm = _LAST_NORM.search(name)
    if norm and by.layers and int(norm[1]) == small.layers - 1:
        return Recipe(None, constant=float(name.endswith("weight")))
    if norm and by.layers and int(norm[1]) == small.layers - 1 + by.layers:
        return Recipe(name.replace(f".layer.{norm[1]}.", f".layer.{small.layers - 1}."))
    recipe = paper_form(name, dimensions, small, by)
    if ".embeddings." in name:
        return replace(recipe, divisor=1)
    if small.tied and name.startswith(_HEAD_NORMS):
        return replace(recipe, divisor=by.width)
    return recipe


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
