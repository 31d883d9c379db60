"""Table 3: the shapes of Section 2's transformers, with their parameters."""

from isoloss.experiments.experiment import Experiment
from isoloss.experiments.scales.scale import Scale
from isoloss.experiments.shape_table import COLUMNS, PAPER_LENGTH, PAPER_WORDS, shape_panel, shape_rows
from isoloss.models.shapes import TABLE_3
from isoloss.panels import Panel, Table


def table_3(scale: Scale) -> Experiment:
    """The paper's shapes, and those that this scale trains in their place."""
    language = scale.grammar.language
    shapes = [architecture.shape for architecture in scale.grammar.architectures]
    own = Panel(
        "scale",
        f"Shapes at the scale “{scale.name}”",
        f"On this scale's grammar: {language.words} words, sentences of {language.maximum_length} at most.",
        (Table(COLUMNS),),
        shape_rows(shapes, language.words, language.maximum_length),
    )
    caption = f"On the paper's grammar: {PAPER_WORDS} words, sentences of {PAPER_LENGTH} at most."
    return Experiment(
        name="table-3",
        title="Which shapes do the transformers have?",
        text=("The transformers that are compared at one loss, smallest first.",),
        runs=(),
        panels=lambda _: (shape_panel("paper", "Table 3", caption, TABLE_3), own),
    )
