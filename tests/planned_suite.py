"""All built-in experiments as they are planned, once for all tests of a process: it takes a second."""

from functools import cache

from isoloss.experiments.design import every_experiment
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.scale import scale_named


@cache
def planned_suite(scale: str) -> tuple[Experiment, ...]:
    """Those of the scale, in the order in which the pages show them."""
    return every_experiment(scale_named(scale))
