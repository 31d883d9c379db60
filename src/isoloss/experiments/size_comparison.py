"""The sizes whose flatness Figure 5 compares, and the one shape that all are enlarged to."""

from collections.abc import Sequence
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


def laptop_transformers(widths: Sequence[int]) -> tuple[PreLayerNormTransformer, ...]:
    """Transformers that a laptop trains: of two layers, without dropout, which would leave the loss higher.

    On a CPU plain attention trains them a tenth faster than the fused kernel.
    """
    return tuple(
        PreLayerNormTransformer(laptop_shape(width), dropout=0.0, attention="eager") for width in widths
    )


SMOKE = SizeComparison(
    tuple(PreLayerNormTransformer(laptop_shape(width)) for width in (16, 32)), laptop_shape(32), sentences=16
)
LAPTOP = SizeComparison(laptop_transformers((32, 48)), laptop_shape(96), sentences=300)
"""Figure 1's sizes, whose runs these are; 96 is the least common multiple of their widths."""

NIGHT = SizeComparison(laptop_transformers((32, 64, 128)), laptop_shape(128), sentences=300)
"""Figure 1's sizes again."""

PAPER = SizeComparison(
    tuple(PreLayerNormTransformer(shape) for shape in TABLE_4), TABLE_4[-1], sentences=10_000
)
"""Table 4 (B.3)."""
