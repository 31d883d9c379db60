import json

import pytest
from frozen_plans import FROZEN, every_plan

from planned_suite import planned_suite


@pytest.mark.parametrize(
    "scale",
    [
        "smoke",
        "laptop",
        "night",
        *(pytest.param(large, marks=pytest.mark.thorough) for large in ("gpu", "paper")),
    ],
)
def test_plans_and_claims_are_those_of_the_stored_results(scale: str) -> None:
    """A run, measurement or claim that changes unseen would leave stored records without an owner."""
    assert every_plan(planned_suite(scale)) == json.loads(FROZEN.read_text())[scale]
