"""All built-in experiments as they are planned, once for all tests of a process: it takes a second."""

from functools import cache

import pytest

from isoloss.experiments.design import every_experiment
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.scale import scale_named


@cache
def planned_suite(scale: str) -> tuple[Experiment, ...]:
    """Those of the scale, in the order in which the pages show them, as if no text has been fetched."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", "/nonexistent")
        return every_experiment(scale_named(scale))
