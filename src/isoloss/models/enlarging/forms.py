"""Where each tensor of an enlarged transformer comes from: B.4 to the letter, and mended to be exact.

With k copies side by side, every vector inside the model is k times repeated. A weight matrix that reads one
sums k equal terms, so it is tiled and divided by k; biases and gains are tiled. So far the two forms agree.
"""

import re
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from isoloss.models.enlarging.enlargement import Enlargement

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
    it acts as k² times as large (spec 8.4); (2) post-LN, the norms of added blocks, whose gain is 1 and bias
    0, normalise anew what the small model's last gain and bias made (spec 8.3).

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
