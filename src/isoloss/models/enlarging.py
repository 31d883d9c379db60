"""BERT and RoBERTa-PreLayerNorm models, enlarged without changing what they compute (paper B.4).

With k copies side by side, every vector inside the model is repeated k times. A weight matrix applied to it
sums k equal terms, so it is tiled and divided by k; biases and gains are tiled. The two forms agree on this.
"""

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from transformers import BertForMaskedLM, PretrainedConfig, PreTrainedModel, RobertaPreLayerNormForMaskedLM

from isoloss.errors import BadInput
from isoloss.models.model_files import quiet
from isoloss.models.transformers import Shape


@dataclass(frozen=True)
class Enlargement:
    """`width` times the width, number of heads and feed-forward units, and `layers` additional layers.

    Heads keep their size. Raises BadInput unless the factor is an integer of at least 1 and the layers are an
    integer of at least 0.

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


def enlargement_between(small: Shape, large: Shape) -> Enlargement:
    """The enlargement that makes `small` as wide and as deep as `large`; inner widths need not agree.

    Raises BadInput if no integer factor does, if layers would have to be removed, or if head sizes differ.

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
    """The small model's number of layers, and whether its input and output embeddings are tied."""

    layers: int
    tied: bool


@dataclass(frozen=True)
class Recipe:
    """One tensor of the large model: tensor `source` of the small one, tiled and divided, or a constant."""

    source: str | None
    divisor: int = 1
    constant: float = 0.0


Form = Callable[[str, int, SmallModel, Enlargement], Recipe]
"""A way to enlarge: the recipe of the large model's parameter of that name and number of dimensions."""


def paper_form(name: str, dimensions: int, small: SmallModel, by: Enlargement) -> Recipe:
    """B.4.2 as printed: matrices and embeddings tiled and divided by k, vectors tiled, added blocks zero.

    This changes the function: (1) in the norm of the embeddings, the variance is 1/k² of the original, so
    that epsilon acts as if it were k² times as large; (2) with post-LN, the norms of added blocks, with gain
    1 and bias 0, renormalise the output of the small model's last gain and bias (docs/enlarging.md).

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
    """The paper's form, corrected in the two places where it changes the function.

    (1) Embeddings are tiled without division, which leaves the norm after them unaffected; if the output
    matrix is tied to them, the gain and bias of the norm before it are divided by k instead. (2) With
    post-LN, the small model's last gain and bias move to the last added norm, and all norms in between have
    gain 1 and bias 0. A norm of a normalised vector is the identity up to its epsilon: if the last block's
    sum has variance v, its vector has a relative error of epsilon (1 - v) / 2v, and there is no other error.

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

    With `exact_form`, scores are equal up to rounding and, for post-LN, up to the error due to epsilon given
    there; with `paper_form` they are those of the paper's construction. The result shares no memory with
    `model` and takes its full size in addition. Traces of the Fisher information change as described in
    docs/enlarging.md.

    Raises BadInput for a model that is neither `BertForMaskedLM` nor `RobertaPreLayerNormForMaskedLM`.

    >>> from isoloss.models.transformers import laptop_shape
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
            state_dict=plan.made(copies),
            dtype=model.dtype,
            attn_implementation=model.config._attn_implementation,
        )
    return large.to(model.device).train(model.training)


@dataclass(frozen=True)
class EnlargingPlan:
    """The large model's configuration, and the shape and recipe of each of its parameters, tied ones once."""

    config: PretrainedConfig
    dtype: torch.dtype
    recipes: dict[str, tuple[tuple[int, ...], Recipe]]

    @torch.no_grad()
    def made(self, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
        """The large model's parameters; removes the small one's from `parameters`, each needed only once.

        A caller that has released the small model thus never holds both models in full. An unchanged matrix
        is not copied; a vector is, since it may be tied in the small model but not in the large one.
        """
        tensors = {}
        for name, (shape, recipe) in self.recipes.items():
            if recipe.source is None:
                tensors[name] = torch.full(shape, recipe.constant, dtype=self.dtype)
                continue
            source = parameters.pop(recipe.source).detach()
            if recipe.divisor > 1:
                source = source / recipe.divisor
            copies = [large // small for large, small in zip(shape, source.shape, strict=True)]
            tensors[name] = source.repeat(copies) if max(copies) > 1 or source.ndim == 1 else source
        return tensors


def enlarging_plan(model: PreTrainedModel, by: Enlargement, form: Form) -> EnlargingPlan:
    """The plan for enlarging `model`, without its weights. Raises BadInput as `enlarged` does."""
    config = _enlarged_config(model, by)
    small = SmallModel(model.config.num_hidden_layers, config.tie_word_embeddings)
    with torch.device("meta"):
        large = type(model)(config)
    recipes = {
        name: (tuple(parameter.shape), form(name, parameter.ndim, small, by))
        for name, parameter in large.named_parameters()
    }
    return EnlargingPlan(config, model.dtype, recipes)


def _enlarged_config(model: PreTrainedModel, by: Enlargement) -> PretrainedConfig:
    """The large model's; raises BadInput for a model that cannot be enlarged."""
    if type(model) not in (BertForMaskedLM, RobertaPreLayerNormForMaskedLM):
        raise BadInput(
            f"{type(model).__name__} cannot be enlarged; give a BertForMaskedLM or a "
            "RobertaPreLayerNormForMaskedLM"
        )
    config, shape = deepcopy(model.config), by.of(Shape.of(model.config))
    config.hidden_size, config.num_attention_heads = shape.width, shape.heads
    config.num_hidden_layers, config.intermediate_size = shape.layers, shape.inner_width
    # The test is whether the weights are one tensor; a configuration may say otherwise.
    config.tie_word_embeddings = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    return config


def enlarged_parameters(model: PreTrainedModel, by: Enlargement) -> int:
    """How many parameters the large model would have, however many layers. Raises BadInput as `enlarged`."""
    config, counted = _enlarged_config(model, by), []
    layers: int = config.num_hidden_layers
    for built in (1, 2):
        config.num_hidden_layers = built
        with torch.device("meta"):
            counted.append(sum(each.numel() for each in type(model)(config).parameters()))
    of_the_first, of_a_further = counted[0], counted[1] - counted[0]
    needed: int = of_the_first + (layers - 1) * of_a_further
    return needed


def parameters_by_name(model: PreTrainedModel) -> dict[str, Tensor]:
    """Every parameter, tied ones under each of their names, since the large model may have them untied."""
    return dict(model.named_parameters(remove_duplicate=False))
