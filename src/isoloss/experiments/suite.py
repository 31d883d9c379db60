"""Every experiment of a scale, in the order in which the page shows them."""

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


def every_experiment(scale: Scale) -> tuple[Experiment, ...]:
    """The paper's figures and tables first, then what goes beyond them."""
    return (
        figure_1_and_drift(scale, scale.grammar.tasks[1]),
        figure_2(scale),
        figure_3(scale),
        figure_4(scale),
        figure_5(scale),
        figure_6(scale),
        figure_7(scale.causal_language.language),
        figure_8(scale),
        figure_9(scale),
        figure_10(scale),
        table_1(scale),
        table_2(scale),
        table_3(scale),
        table_4(scale),
        drift(scale, scale.grammar.tasks[1]),
        drift_limits(scale),
        adamw_clock(scale),
        flatness_interventions(scale, scale.grammar.tasks[1]),
        real_text_steps(scale),
        real_text_algorithms(scale),
        update_rules(scale),
        causal_objective(scale),
        longer_training(scale),
        flatness_measures(scale),
        projection(scale),
        ablations(scale),
        glue_of_causal_language(scale),
        lazy_to_rich(scale),
        other_distributions(scale),
        roots_or_trace(scale),
        dyck_transfer(scale),
    )


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
