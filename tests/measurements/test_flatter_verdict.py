"""How many sentences an undecided question takes: with that many, and the same differences, it is decided."""

from dataclasses import replace

import pytest

from isoloss.measurements.flatter_verdict import FlatterVerdict
from isoloss.results.estimate import Estimate

SETTLED = Estimate(0.0, 0.001, 200)


@pytest.mark.parametrize("trace", [-5.0, -1.0, 0.5, 2.0])
@pytest.mark.parametrize("loss", [SETTLED, Estimate(0.015, 0.01, 200), Estimate(0.04, 0.02, 200)])
def test_that_many_sentences_decide_and_half_as_many_do_not(trace: float, loss: Estimate) -> None:
    found = FlatterVerdict("a", "b", Estimate(trace, 2.5, 200), Estimate(-1.0, 0.1, 200), loss, 2.0, (9, 9))
    if found.answer != "open":
        assert found.undecided is None
        return
    assert found.undecided is not None
    assert f"{found.sentences_needed:,.0f} would decide it" in found.undecided

    def on(sentences: float) -> FlatterVerdict:
        shrunk = [
            replace(each, standard_error=each.standard_error * (each.n / sentences) ** 0.5, n=int(sentences))
            for each in (found.trace, found.loss)
        ]
        return replace(found, trace=shrunk[0], loss=shrunk[1])

    assert on(1.01 * found.sentences_needed).answer != "open"
    assert on(0.5 * found.sentences_needed).answer == "open"
