"""Tables 3 and 4: shapes of transformers, and their numbers of trainable parameters."""

from collections.abc import Sequence

import polars as pl

from isoloss.experiments.experiment import Experiment
from isoloss.experiments.scales.scale import Scale
from isoloss.models.enlarging.transformer import enlargement_between
from isoloss.models.shapes import TABLE_3, TABLE_4, TABLE_4_PRINTED_INNER, Shape
from isoloss.models.transformers import WHOLE_TOKENIZER
from isoloss.objectives.tokens import FIRST_WORD
from isoloss.panels import Axis, Panel, Table

ENLARGED = (
    Axis("width", "width"),
    Axis("copies", "copies side by side"),
    Axis("added_layers", "layers added"),
    Axis("enlarged_inner_width", "inner width, enlarged"),
)
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
    "Parameters of the pre-LN transformer with tied embeddings. The paper names its models by sizes from 2M "
    "to 950M, which are the counts with BERT's vocabulary of 30,522 words (2.07M at width 64, 234.4M at "
    "width 1024, 948.6M at width 1920)."
)


def parameters(shape: Shape, tokens: int, positions: int) -> int:
    """Number of trainable parameters of a `PreLayerNormTransformer`, by formula; see `models.transformers`.

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
    """A row per shape, with its parameters on a language and with BERT's vocabulary."""
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


def table_3(scale: Scale) -> Experiment:
    """The paper's shapes, and those that this scale trains instead."""
    language = scale.grammar.language
    shapes = [architecture.shape for architecture in scale.grammar.architectures]
    own = Panel(
        "scale",
        f"Shapes at the scale “{scale.name}”",
        f"On this scale's grammar: {language.words} words, sentences of at most {language.maximum_length}.",
        (Table(COLUMNS),),
        shape_rows(shapes, language.words, language.maximum_length),
    )
    caption = f"On the paper's grammar: {PAPER_WORDS} words, sentences of at most {PAPER_LENGTH}."
    return Experiment(
        name="table-3",
        title="Which shapes do the transformers have?",
        text=("The transformers that are compared at the same loss, smallest first.",),
        runs=(),
        panels=lambda _: (shape_panel("paper", "Table 3", caption, TABLE_3), own),
    )


CAPTION = (
    f"On the paper's grammar: {PAPER_WORDS} words, sentences of at most {PAPER_LENGTH}. Inner widths are "
    f"four times the width, as in B.4. Table 4 prints {', '.join(map(str, TABLE_4_PRINTED_INNER))}; with "
    "these, the parameter counts would not match the paper's, and the enlarged models would not have one "
    "shape."
)


def table_4(scale: Scale) -> Experiment:
    """The paper's shapes and what enlarging makes of them, and this scale's."""
    language, enlarged = scale.grammar.language, scale.sizes_compared
    own = [architecture.shape for architecture in enlarged.architectures]
    own_rows = shape_rows(own, language.words, language.maximum_length)
    return Experiment(
        name="table-4",
        title="Which shapes are enlarged to one?",
        text=(
            "To compare the flatness of models of different sizes, each is viewed as a point in the "
            "parameter space of one larger model, whose width is a common multiple of theirs.",
        ),
        runs=(),
        panels=lambda _: (
            shape_panel("paper", "Table 4", CAPTION, TABLE_4),
            enlarging_panel("paper-enlarged", "Table 4, enlarged", TABLE_4, TABLE_4[-1]),
            Panel(
                "scale",
                f"Shapes at the scale “{scale.name}”",
                f"Trained on this scale's grammar of {language.words} words.",
                (Table(COLUMNS),),
                own_rows,
            ),
            enlarging_panel("scale-enlarged", "This scale's, enlarged", own, enlarged.common),
        ),
    )


def enlarging_panel(name: str, title: str, shapes: list[Shape] | tuple[Shape, ...], common: Shape) -> Panel:
    """The factor of each shape, and whether the inner widths meet."""
    rows = []
    for shape in shapes:
        by = enlargement_between(shape, common)
        inner = by.of(shape).inner_width
        rows.append(
            {
                "width": shape.width,
                "copies": by.width,
                "added_layers": by.layers,
                "enlarged_inner_width": inner,
            }
        )
    data = pl.DataFrame(rows)
    widths = sorted(set(data["enlarged_inner_width"]))
    meet = (
        f"All have an inner width of {widths[0]:,}."
        if len(widths) == 1
        else (
            f"Their inner widths differ, from {widths[0]:,} to {widths[-1]:,}, so the enlarged models do not "
            "all have the same shape."
        )
    )
    caption = f"Each is enlarged to width {common.width:,} and {common.layers} layers. {meet}"
    return Panel(name, title, caption, (Table(ENLARGED),), data)
