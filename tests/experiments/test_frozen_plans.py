import json

import pytest
from frozen_plans import FROZEN, SCALES, every_plan

from isoloss.errors import BadInput
from isoloss.experiments.experiment_names import refuse_unseeded_runs
from planned_suite import planned_suite


@pytest.mark.parametrize("scale", SCALES)
def test_plans_and_claims_are_those_of_the_stored_results(scale: str) -> None:
    """A run, measurement or claim that changes unseen would leave stored records without an owner."""
    assert every_plan(planned_suite(scale)) == json.loads(FROZEN.read_text())[scale]


@pytest.mark.parametrize("scale", SCALES)
def test_the_name_of_every_run_has_a_seed(scale: str) -> None:
    """The command line refuses others before it reads the plans."""

    def is_refused(experiment: str, run: str) -> bool:
        try:
            refuse_unseeded_runs(experiment, [run])
        except BadInput:
            return True
        return False

    planned = [(each.name, run.name) for each in planned_suite(scale) for run in each.runs]
    assert [names for names in planned if is_refused(*names)] == []
    assert is_refused(planned[0][0], "width-16")
