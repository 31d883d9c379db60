"""Figure 6: sentences of the grammar as their derivation trees."""

import polars as pl
import torch

from isoloss.errors import BadInput
from isoloss.experiments.design import Design
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.languages import ReadyLanguage
from isoloss.experiments.scale import Scale
from isoloss.languages.pcfg import PCFG
from isoloss.panels import Axis, Panel, Table, Tree

TREES = 3
SEED = 6
CAPTION = (
    "The words of the sentence are at the bottom, in order, below the symbols that they derive from. The "
    "tasks ask for the symbol of the whole sentence, of its first half and of its first quarter, given the "
    "words below it."
)


def figure_6(scale: Scale) -> Experiment:
    """Derivations of the scale's grammar; nothing is pre-trained. Raises BadInput for another language."""
    plan = scale.grammar.language
    if not isinstance(plan, ReadyLanguage) or not isinstance(plan.ready, PCFG):
        raise BadInput("Figure 6 shows derivations, which only a grammar has; give the grammar itself")
    language = plan.ready
    return Experiment(
        name="figure-6",
        title="What do the grammar's sentences and their trees look like?",
        text=(
            "Sentences are drawn from a random grammar, each together with its derivation tree. Models see "
            "only the words.",
        ),
        runs=(),
        panels=lambda _: tree_panels(language),
        settings=(("grammar", language.digest[:16]), ("seed", str(SEED))),
    )


def tree_panels(language: PCFG) -> tuple[Panel, ...]:
    """One panel per derivation, whose data is its sentence, one row per word."""
    drawn = language.sample_derivations(TREES, torch.Generator().manual_seed(SEED))
    table = Table((Axis("position", "position"), Axis("word", "word")))
    return tuple(
        Panel(
            f"tree-{number}",
            f"Sentence {number}",
            CAPTION,
            (Tree(tree), table),
            pl.DataFrame({"position": range(1, len(tree.words) + 1), "word": tree.words}),
        )
        for number, tree in enumerate(drawn, start=1)
    )


EXPERIMENT = Design(figure_6, of_the_paper=True)
