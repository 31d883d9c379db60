"""How many sentences an undecided question takes: with that many, and the same differences, it is decided."""

from dataclasses import replace

import pytest

from isoloss.measurements.flatter_verdict import FlatterVerdict
from isoloss.measurements.measured_models import about
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
    losses_decide = abs(loss.value) > 0.02
    told = "show that the losses differ, and end the question" if losses_decide else "decide it"
    assert f"{about(found.sentences_needed)} would {told}" in found.undecided

    def on(sentences: float) -> FlatterVerdict:
        shrunk = [
            replace(each, standard_error=each.standard_error * (each.n / sentences) ** 0.5, n=int(sentences))
            for each in (found.trace, found.loss)
        ]
        return replace(found, trace=shrunk[0], loss=shrunk[1])

    assert on(1.01 * found.sentences_needed).answer != "open"
    assert on(0.5 * found.sentences_needed).answer == "open"


def test_more_sentences_are_asked_for_than_there_are() -> None:
    wide, loss = Estimate(17.0, 52.0, 20), Estimate(0.36, 0.112, 20)
    found = FlatterVerdict("a", "b", wide, wide, loss, 3.2, (9, 9), 1 - 0.05 / 6)
    assert found.undecided is not None
    assert "undecided on 20 sentences; about 21 would show that the losses differ" in found.undecided


def test_of_identical_models_nothing_is_to_be_decided() -> None:
    none = Estimate(0.0, 0.0, 20)
    found = FlatterVerdict("a", "b", none, none, none, 3.2, (9, 9))
    assert (found.in_words, found.undecided) == (
        "undecided",
        "nothing differs on 20 sentences: a and b are the same model",
    )


def test_why_the_question_is_not_asked_stands_beside_it() -> None:
    known = Estimate(-5.0, 0.1, 200)
    found = FlatterVerdict("a", "b", known, known, Estimate(0.5, 0.01, 200), 2.0, (9, 9))
    assert found.in_words == "not asked, since the losses differ"
