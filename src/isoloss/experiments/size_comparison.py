"""The sizes whose flatness Figure 5 compares, and the one shape that all are enlarged to."""

from dataclasses import dataclass

from isoloss.models.enlarging.enlargement import enlargement_between
from isoloss.models.shapes import TABLE_4, Shape, laptop_shape
from isoloss.models.transformers import PreLayerNormTransformer


@dataclass(frozen=True)
class SizeComparison:
    """Architectures trained as the grammar's are, and the `common` shape that each is enlarged to.

    `sentences` is how many the trace of an enlarged model is measured on. Raises BadInput where an
    architecture cannot be enlarged to the common shape.
    """

    architectures: tuple[PreLayerNormTransformer, ...]
    common: Shape
    sentences: int

    def __post_init__(self) -> None:
        for architecture in self.architectures:
            enlargement_between(architecture.shape, self.common)


SMOKE = SizeComparison(
    tuple(PreLayerNormTransformer(laptop_shape(width)) for width in (16, 32)), laptop_shape(32), sentences=16
)
LAPTOP = SizeComparison(
    tuple(PreLayerNormTransformer(laptop_shape(width), attention="eager") for width in (32, 48, 64)),
    laptop_shape(192),
    sentences=300,
)
"""Figure 1's sizes, whose runs these are; 192 is the least common multiple of their widths."""

PAPER = SizeComparison(
    tuple(PreLayerNormTransformer(shape) for shape in TABLE_4), TABLE_4[-1], sentences=10_000
)
"""Table 4 (B.3)."""
