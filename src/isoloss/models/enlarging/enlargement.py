"""By how much a transformer is enlarged, and the shapes that come out."""

from copy import deepcopy
from dataclasses import dataclass

from transformers import PretrainedConfig

from isoloss.errors import BadInput
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
