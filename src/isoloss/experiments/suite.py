"""Every experiment of a scale, in the order in which the page shows them."""

from collections.abc import Callable

from isoloss.experiments.drift.experiment import (
    adamw_clock,
    drift,
    drift_limits,
    figure_1_and_drift,
    flatness_interventions,
)
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures.ablations import ablations, projection
from isoloss.experiments.figures.causal_objective import causal_objective
from isoloss.experiments.figures.dyck_transfer import dyck_transfer
from isoloss.experiments.figures.figure_2 import figure_2
from isoloss.experiments.figures.figure_5 import figure_5
from isoloss.experiments.figures.figure_9 import figure_9
from isoloss.experiments.figures.figures_3_and_8 import figure_3, figure_8
from isoloss.experiments.figures.figures_4_and_10 import figure_4, figure_10
from isoloss.experiments.figures.figures_6_and_7 import figure_6, figure_7
from isoloss.experiments.figures.flatness_measures import flatness_measures
from isoloss.experiments.figures.glue_of_causal_language import glue_of_causal_language
from isoloss.experiments.figures.lazy_to_rich import lazy_to_rich
from isoloss.experiments.figures.longer_training import longer_training
from isoloss.experiments.figures.other_distributions import other_distributions
from isoloss.experiments.figures.real_text_algorithms import real_text_algorithms
from isoloss.experiments.figures.real_text_steps import real_text_steps
from isoloss.experiments.figures.roots_or_trace import roots_or_trace
from isoloss.experiments.figures.tables_1_and_2 import table_1, table_2
from isoloss.experiments.figures.tables_3_and_4 import table_3, table_4
from isoloss.experiments.figures.update_rules import update_rules
from isoloss.experiments.scales.gpu import gpu
from isoloss.experiments.scales.laptop import laptop
from isoloss.experiments.scales.night import night
from isoloss.experiments.scales.paper import paper
from isoloss.experiments.scales.scale import Scale, ScaleName
from isoloss.experiments.scales.smoke import smoke

EXPERIMENTS: dict[str, Callable[[Scale], Experiment]] = {
    "figure-1": lambda scale: figure_1_and_drift(scale, scale.grammar.tasks[1]),
    "figure-2": figure_2,
    "figure-3": figure_3,
    "figure-4": figure_4,
    "figure-5": figure_5,
    "figure-6": figure_6,
    "figure-7": lambda scale: figure_7(scale.causal_language.language),
    "figure-8": figure_8,
    "figure-9": figure_9,
    "figure-10": figure_10,
    "table-1": table_1,
    "table-2": table_2,
    "table-3": table_3,
    "table-4": table_4,
    "drift": lambda scale: drift(scale, scale.grammar.tasks[1]),
    "drift-limits": drift_limits,
    "adamw-clock": adamw_clock,
    "flatness-interventions": lambda scale: flatness_interventions(scale, scale.grammar.tasks[1]),
    "real-text-steps": real_text_steps,
    "real-text-algorithms": real_text_algorithms,
    "update-rules": update_rules,
    "causal-objective": causal_objective,
    "longer-training": longer_training,
    "flatness-measures": flatness_measures,
    "projection": projection,
    "ablations": ablations,
    "glue-of-causal-language": glue_of_causal_language,
    "lazy-to-rich": lazy_to_rich,
    "other-distributions": other_distributions,
    "roots-or-trace": roots_or_trace,
    "dyck-transfer": dyck_transfer,
}
"""What makes each, by its name: the paper's figures and tables first, then what goes beyond them."""

ON_REAL_TEXT = ("real-text-steps", "real-text-algorithms", "glue-of-causal-language")
"""The paper's panels and rows on real text."""

OF_THE_PAPER = tuple(
    name for name in EXPERIMENTS if name.startswith(("figure-", "table-")) or name in ON_REAL_TEXT
)
"""Every figure and table of the paper."""


def every_experiment(scale: Scale) -> tuple[Experiment, ...]:
    """All of them, in the order in which the pages show them."""
    return tuple(make(scale) for make in EXPERIMENTS.values())


def scale_named(name: ScaleName) -> Scale:
    """The scale of that name."""
    match name:
        case "smoke":
            return smoke()
        case "laptop":
            return laptop()
        case "night":
            return night()
        case "gpu":
            return gpu()
        case "paper":
            return paper()
