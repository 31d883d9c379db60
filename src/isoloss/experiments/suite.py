"""Every experiment of a scale, in the order in which the page shows them."""

from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figure_1 import figure_1
from isoloss.experiments.scale import Scale


def every_experiment(scale: Scale) -> tuple[Experiment, ...]:
    """The paper's figures and tables first, then what goes beyond them."""
    return (figure_1(scale, scale.grammar.tasks[1]),)
