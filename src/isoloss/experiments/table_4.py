"""Table 4: the shapes of Figure 5's transformers, and the one shape that all are enlarged to."""

import polars as pl

from isoloss.experiments.experiment import Experiment
from isoloss.experiments.scales.scale import Scale
from isoloss.experiments.shape_table import COLUMNS, PAPER_LENGTH, PAPER_WORDS, shape_panel, shape_rows
from isoloss.models.enlarging.enlargement import enlargement_between
from isoloss.models.shapes import TABLE_4, TABLE_4_PRINTED_INNER, Shape
from isoloss.panels import Axis, Panel, Table

ENLARGED = (
    Axis("width", "width"),
    Axis("copies", "copies side by side"),
    Axis("added_layers", "layers added"),
    Axis("enlarged_inner_width", "inner width, enlarged"),
)
CAPTION = (
    f"On the paper's grammar: {PAPER_WORDS} words, sentences of {PAPER_LENGTH} at most. Inner widths are "
    f"four times the width, as B.4 says. Table 4 prints {', '.join(map(str, TABLE_4_PRINTED_INNER))}: with "
    "these neither would the parameters be as many as the paper says, nor would the enlarged models be of "
    "one shape."
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
            "parameter space of one larger model. Its width is a common multiple of theirs.",
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
    """What each shape is multiplied by, and whether the inner widths meet."""
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
        f"All have an inner width of {widths[0]:,} then."
        if len(widths) == 1
        else f"Their inner widths do not meet in one: they lie from {widths[0]:,} to {widths[-1]:,}, so the "
        "enlarged models are not all of one shape."
    )
    caption = f"Each is enlarged to width {common.width:,} and {common.layers} layers. {meet}"
    return Panel(name, title, caption, (Table(ENLARGED),), data)
