"""Shapes of transformers: the paper's Tables 3 and 4, and small ones for a laptop."""

from dataclasses import dataclass

from isoloss.errors import BadInput


@dataclass(frozen=True)
class Shape:
    """Width, attention heads per layer, layers, and inner width of the feed-forward blocks.

    Raises BadInput if a number is not positive or the heads do not divide the width.

    >>> Shape(width=64, heads=1, layers=1, inner_width=256).head_size
    64
    """

    width: int
    heads: int
    layers: int
    inner_width: int

    def __post_init__(self) -> None:
        if min(self.width, self.heads, self.layers, self.inner_width) < 1:
            raise BadInput(f"every number of {self} must be at least 1")
        if self.width % self.heads:
            raise BadInput(f"the {self.heads} heads of {self} do not divide its width; choose another number")

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.width // self.heads


TABLE_3 = (
    Shape(64, 1, 1, 256),
    Shape(128, 2, 4, 512),
    Shape(192, 3, 5, 768),
    Shape(256, 4, 6, 1024),
    Shape(512, 8, 8, 2048),
    Shape(768, 12, 12, 3072),
    Shape(1024, 16, 16, 4096),
    Shape(1280, 20, 20, 5120),
    Shape(1536, 24, 24, 6144),
)
"""The transformers of the paper's Section 2, smallest first."""

TABLE_4 = (
    Shape(128, 2, 4, 512),
    Shape(192, 3, 5, 768),
    Shape(320, 5, 6, 1280),
    Shape(384, 6, 7, 1536),
    Shape(640, 10, 12, 2560),
    Shape(960, 15, 16, 3840),
    Shape(1920, 30, 20, 7680),
)
"""The transformers of the paper's Figure 5, smallest first, with inner widths of four times the width.

That is what B.4 says they are, and with BERT's 30,522 tokens the last is then the paper's "950M" and the
fourth its "25M"; see `TABLE_4_PRINTED_INNER`."""
TABLE_4_PRINTED_INNER = (512, 768, 1024, 2048, 3072, 4096, 5120)
"""The inner widths that Table 4 prints, which from the third row on are not four times the width."""


def laptop_shape(width: int) -> Shape:
    """Two layers, heads of 16, inner width four times the width.

    >>> laptop_shape(48)
    Shape(width=48, heads=3, layers=2, inner_width=192)
    """
    if width < 16 or width % 16:
        raise BadInput(f"a laptop shape's width must be a multiple of its head size 16, not {width}")
    return Shape(width, width // 16, 2, 4 * width)


LAPTOP = tuple(laptop_shape(width) for width in (16, 32, 48, 64, 96, 128))
"""Shapes that train in minutes on one core, smallest first."""
