"""Tables 3 and 4: shapes of transformers, and their numbers of trainable parameters."""

from collections.abc import Sequence

import polars as pl

from isoloss.experiments.design import Design
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.scale import Scale
from isoloss.models.transformers import (
    TABLE_3,
    WHOLE_TOKENIZER,
    PreLayerNormTransformer,
    Shape,
    parameter_count,
)
from isoloss.panels import Axis, Panel, Table

PAPER_WORDS, PAPER_LENGTH = 200, 32
"""The paper's grammar (A.1)."""

BERT_POSITIONS = 512
"""BERT's longest input (Devlin et al. 2019)."""

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


def parameters_with_bert(shape: Shape) -> int:
    """Of a `PreLayerNormTransformer` with BERT's vocabulary and positions; the paper names its sizes by them.

    >>> parameters_with_bert(Shape(64, 1, 1, 256))
    2071354
    """
    model = PreLayerNormTransformer(shape, tokens=WHOLE_TOKENIZER)
    return parameter_count(model, words=1, maximum_length=BERT_POSITIONS - 1)


def shape_rows(shapes: Sequence[Shape], words: int, maximum_length: int) -> pl.DataFrame:
    """A row per shape, with its parameters on a language and with BERT's vocabulary."""
    return pl.DataFrame(
        [
            {
                "width": shape.width,
                "heads": shape.heads,
                "layers": shape.layers,
                "inner_width": shape.inner_width,
                "parameters": parameter_count(PreLayerNormTransformer(shape), words, maximum_length),
                "with_bert_vocabulary": parameters_with_bert(shape),
            }
            for shape in shapes
        ]
    )


def shape_panel(title: str, caption: str, shapes: Sequence[Shape]) -> Panel:
    """Shapes that the paper prints, with their parameters on its grammar."""
    rows = shape_rows(shapes, PAPER_WORDS, PAPER_LENGTH)
    return Panel("paper", title, f"{caption} {COUNTS}", (Table(COLUMNS + WITH_BERT),), rows)


def table_3(scale: Scale) -> Experiment:
    """The paper's shapes, and those that this scale trains instead."""
    language = scale.grammar.language
    shapes = [architecture.shape for architecture in scale.grammar.architectures]
    at_this_scale = Panel(
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
        panels=lambda _: (shape_panel("Table 3", caption, TABLE_3), at_this_scale),
    )


EXPERIMENT = Design(table_3, of_the_paper=True)
