import json

import pytest
from frozen_plans import FROZEN, SCALES, every_plan, named

from isoloss.errors import BadInput
from isoloss.experiments.experiment_names import (
    RUN_NAMES,
    refuse_absent_runs,
    refuse_unseeded_runs,
    run_names,
)
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


@pytest.mark.parametrize("scale", SCALES)
def test_the_command_line_knows_the_name_of_every_run(scale: str) -> None:
    suite = planned_suite(scale)
    assert json.loads(RUN_NAMES.read_text())[scale] == named(suite)
    for experiment in suite:
        assert sorted(run_names(experiment.name, scale)) == sorted(run.name for run in experiment.runs)
    with pytest.raises(BadInput, match="is called 'width-9-seed-1'"):
        refuse_absent_runs("figure-1", scale, ["width-9-seed-1"])
