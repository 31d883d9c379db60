import json

import pytest
from frozen_plans import FROZEN, SCALES, every_plan

from isoloss.experiments.experiment_names import refuse_unseeded_runs
from planned_suite import planned_suite


@pytest.mark.parametrize("scale", SCALES)
def test_plans_and_claims_are_those_of_the_stored_results(scale: str) -> None:
    """A run, measurement or claim that changes unseen would leave stored records without an owner."""
    assert every_plan(planned_suite(scale)) == json.loads(FROZEN.read_text())[scale]


@pytest.mark.parametrize("scale", SCALES)
def test_the_name_of_every_run_has_a_seed(scale: str) -> None:
    """The command line refuses others before it reads the plans."""
    for experiment in planned_suite(scale):
        refuse_unseeded_runs(experiment.name, [run.name for run in experiment.runs])
