"""What is shipped of the claims is what today's code makes of the shipped rows."""

import copy
from typing import Any

import pytest

from isoloss.experiments.shipped_results import JUDGED, shipped_results

pytestmark = pytest.mark.usefixtures("_planned_once")


def shipped(scale: str, name: str) -> dict[str, Any]:
    result: dict[str, Any] = copy.deepcopy(shipped_results(scale)[name]["result"])
    return result


def changed(scale: str, name: str) -> list[str]:
    from judged_again import changes, judged_again

    return list(changes(shipped(scale, name), judged_again(scale, shipped(scale, name))))


@pytest.mark.parametrize(
    "name", ["figure-1", pytest.param("flatten-polish-tuned", marks=pytest.mark.thorough)]
)
def test_judging_again_changes_nothing(name: str) -> None:
    assert changed("laptop", name) == []


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["laptop", "night"])
def test_judging_everything_again_changes_nothing(scale: str) -> None:
    assert [line for name in shipped_results(scale) for line in changed(scale, name)] == []


def test_what_changes_is_told() -> None:
    from judged_again import changes, judged_again

    result = shipped("laptop", "figure-1")
    other = copy.deepcopy(result)
    claim, moved, undefined = other["claims"][:3]
    claim["verdict"] = "inconclusive"
    moved["low"] -= 0.01 * (moved["high"] - moved["low"])
    undefined["low"] = None
    told = list(changes(result, other))
    assert [line.split(":")[0] for line in told] == [
        f"figure-1 {each['name']}" for each in (claim, moved, undefined)
    ]
    assert told[0].endswith("inconclusive")
    again = judged_again("laptop", other)
    for name in JUDGED:  # another processor rounds the last digits of numbers otherwise
        found, shipped_one = again["claims"][0][name], result["claims"][0][name]
        assert found == (pytest.approx(shipped_one, rel=1e-12) if isinstance(found, float) else shipped_one)
