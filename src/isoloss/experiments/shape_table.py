"""Tables 3 and 4: shapes of transformers, and how many numbers each learns."""

from collections.abc import Sequence

import polars as pl

from isoloss.models.shapes import Shape
from isoloss.models.transformers import WHOLE_TOKENIZER
from isoloss.objectives.tokens import FIRST_WORD
from isoloss.panels import Axis, Panel, Table

BERT_TOKENS, BERT_POSITIONS = WHOLE_TOKENIZER, 512
"""BERT's uncased vocabulary and its longest input (Devlin et al. 2019)."""
PAPER_WORDS, PAPER_LENGTH = 200, 32
"""The paper's grammar (A.1)."""

COLUMNS = (
    Axis("width", "width"),
    Axis("heads", "heads"),
    Axis("layers", "layers"),
    Axis("inner_width", "inner width"),
    Axis("parameters", "parameters on this language"),
)
WITH_BERT = (Axis("with_bert_vocabulary", "with BERT's vocabulary and 512 positions"),)
COUNTS = (
    "Of the pre-LN transformer with tied embeddings. The paper names its models by sizes from 2M to 950M; "
    "that is what comes out with BERT's vocabulary of 30,522 words (2.07M at width 64, 234.4M at width 1024, "
    "948.6M at width 1920)."
)


def parameters(shape: Shape, tokens: int, positions: int) -> int:
    """How many numbers a `PreLayerNormTransformer` learns, by formula; see `models.transformers`.

    `positions` is the number of tokens of its longest input, to which RoBERTa's unused one is added.

    >>> parameters(Shape(512, 8, 8, 2048), tokens=203, positions=33)
    25606859
    """
    width, inner = shape.width, shape.inner_width
    embeddings = (tokens + positions + 2) * width + 2 * width
    attention = 4 * (width**2 + width)
    feed_forward = 2 * width * inner + inner + width
    head = width**2 + 3 * width + tokens
    return embeddings + shape.layers * (attention + feed_forward + 4 * width) + 2 * width + head


def shape_rows(shapes: Sequence[Shape], words: int, maximum_length: int) -> pl.DataFrame:
    """A row a shape, with its parameters on a language and with BERT's vocabulary."""
    return pl.DataFrame(
        [
            {
                "width": shape.width,
                "heads": shape.heads,
                "layers": shape.layers,
                "inner_width": shape.inner_width,
                "parameters": parameters(shape, words + FIRST_WORD, maximum_length + 1),
                "with_bert_vocabulary": parameters(shape, BERT_TOKENS, BERT_POSITIONS),
            }
            for shape in shapes
        ]
    )


def shape_panel(name: str, title: str, caption: str, shapes: Sequence[Shape]) -> Panel:
    """Shapes that the paper prints, with their parameters on its grammar."""
    rows = shape_rows(shapes, PAPER_WORDS, PAPER_LENGTH)
    return Panel(name, title, f"{caption} {COUNTS}", (Table(COLUMNS + WITH_BERT),), rows)
