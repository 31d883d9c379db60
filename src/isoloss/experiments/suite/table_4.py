"""Table 4: shapes of the transformers that are enlarged to one."""

import polars as pl

from isoloss.experiments.design import Design
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.scale import Scale
from isoloss.experiments.suite.figure_5 import AT, SizeComparison
from isoloss.experiments.suite.table_3 import COLUMNS, PAPER_LENGTH, PAPER_WORDS, shape_panel, shape_rows
from isoloss.models.enlarging import enlargement_between
from isoloss.models.transformers import TABLE_4, TABLE_4_PRINTED_INNER, Shape
from isoloss.panels import Axis, Panel, Table

ENLARGED = (
    Axis("width", "width"),
    Axis("copies", "copies side by side"),
    Axis("added_layers", "layers added"),
    Axis("enlarged_inner_width", "inner width, enlarged"),
)
CAPTION = (
    f"On the paper's grammar: {PAPER_WORDS} words, sentences of at most {PAPER_LENGTH}. Inner widths are "
    f"four times the width, as in B.4. Table 4 prints {', '.join(map(str, TABLE_4_PRINTED_INNER))}; with "
    "these, the parameter counts would not match the paper's, and the enlarged models would not have one "
    "shape."
)


def table_4(scale: Scale, enlarged: SizeComparison) -> Experiment:
    """The paper's shapes and what enlarging makes of them, and this scale's."""
    language = scale.grammar.language
    shapes = [architecture.shape for architecture in enlarged.architectures]
    own_rows = shape_rows(shapes, language.words, language.maximum_length)
    return Experiment(
        name="table-4",
        title="Which shapes are enlarged to one?",
        text=(
            "To compare the flatness of models of different sizes, each is viewed as a point in the "
            "parameter space of one larger model, whose width is a common multiple of theirs.",
        ),
        runs=(),
        panels=lambda _: (
            shape_panel("Table 4", CAPTION, TABLE_4),
            enlarging_panel("paper-enlarged", "Table 4, enlarged", TABLE_4, TABLE_4[-1]),
            Panel(
                "scale",
                f"Shapes at the scale “{scale.name}”",
                f"Trained on this scale's grammar of {language.words} words.",
                (Table(COLUMNS),),
                own_rows,
            ),
            enlarging_panel("scale-enlarged", "This scale's, enlarged", shapes, enlarged.common),
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


EXPERIMENT = Design(lambda scale: table_4(scale, AT[scale.name]), of_the_paper=True)
