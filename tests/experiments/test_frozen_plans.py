import json

import pytest
from frozen_plans import FROZEN, RUN_NAMES, SCALES, every_plan, every_run_name

from isoloss.experiments.run_names import builtin_run_names
from planned_suite import planned_suite


@pytest.mark.parametrize("scale", SCALES)
def test_plans_and_claims_are_those_of_the_stored_results(scale: str) -> None:
    """A run, measurement or claim that changes unseen would leave stored records without an owner."""
    assert every_plan(planned_suite(scale)) == json.loads(FROZEN.read_text())[scale]


def test_the_names_from_which_a_wrong_one_is_told_are_those_of_the_plans() -> None:
    """Otherwise the command line would refuse a run that there is."""
    suites = {scale: planned_suite(scale) for scale in SCALES}
    assert every_run_name(suites) == json.loads(RUN_NAMES.read_text())
    for scale, suite in suites.items():
        for each in suite:
            assert set(builtin_run_names(each.name, scale)) == {run.name for run in each.runs}
