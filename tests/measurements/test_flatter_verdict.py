"""Whether a model is flatter, by estimates made by hand, and how many sentences would decide that."""

import copy
from dataclasses import replace

import pytest
import torch

from isoloss.corpora.token_sentences import TokenCorpus
from isoloss.curvature.stopping import Stopping
from isoloss.measurements.flatter_verdict import FlatterVerdict, flatter_verdicts
from isoloss.measurements.measured_models import about, measure
from isoloss.measurements.prediction import MaskedTokens, SpecialTokens
from isoloss.measurements.sampled_batches import SampledBatches
from isoloss.results.estimate import Estimate
from tiny_language_models import tiny_language_model

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


def verdict(trace=-5.0, normalised=-1.0, loss=0.0, error=0.001, parameters=(9, 9)):
    return FlatterVerdict(
        "a",
        "b",
        Estimate(trace, 1.0, 99),
        Estimate(normalised, 0.1, 99),
        Estimate(loss, error, 99),
        2.0,
        parameters,
    )


@pytest.mark.parametrize(("trace", "answer"), [(-5.0, "yes"), (5.0, "no"), (-1.9, "open")])
def test_an_answer_is_given_where_the_whole_interval_gives_it(trace, answer):
    assert verdict(trace, normalised=trace).answer == answer
    assert verdict(trace, normalised=trace).warnings == []


def test_few_sentences_have_a_wide_interval():
    """Student's: 1.96 errors of two sentences hold nothing in three cases of ten."""
    few = replace(verdict(trace=-5.0), trace=Estimate(-5.0, 1.0, 2))
    assert (few.answer, replace(few, trace=Estimate(-5.0, 1.0, 6)).answer) == ("open", "yes")
    drawn = torch.randn(20_000, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    means, errors = drawn.mean(dim=1), drawn.std(dim=1) / 2
    _, reach = Estimate(0.0, 1.0, 4).interval(0.95)
    assert float((means.abs() <= reach * errors).double().mean()) == pytest.approx(0.95, abs=0.006)


def test_several_models_share_the_chance_of_an_error():
    assert replace(verdict(trace=-2.1, normalised=-1.0), confidence=0.975).answer == "open"
    assert verdict(trace=-2.1).answer == "yes"


@pytest.mark.parametrize(
    ("changes", "answer", "warning"),
    [
        ({"loss": 0.1}, "not asked", "the losses differ by more than 1 %"),
        ({"error": 0.02}, "open", "the losses may differ by more than 1 %"),
        ({"normalised": 1.0}, "yes", "relative to the size of the weights it is the other way round"),
        ({"parameters": (9, 10)}, "not asked", "sums over 9 and 10 parameters"),
    ],
)
def test_what_makes_the_question_void_is_said_and_not_answered(changes, answer, warning):
    found = verdict(**changes)
    (said,) = found.warnings
    assert said.startswith(warning) or warning in said
    assert found.answer == answer


def test_numbers_are_those_of_the_same_sentences():
    model = tiny_language_model("bert")
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter *= 0.7
    generator = torch.Generator().manual_seed(0)
    sentences = [torch.randint(2, 11, (n,), generator=generator).tolist() for n in (3, 5, 4, 6, 5, 3, 7, 4)]
    batches = SampledBatches(
        TokenCorpus(sentences, list(range(1, 9))), MaskedTokens(), 0, SpecialTokens(mask=1)
    )
    models = {"a": model, "b": other, "c": copy.deepcopy(model)}
    found = measure("fisher_trace", models, batches, Stopping(sentences=8), {})
    flatter, same = flatter_verdicts(models, batches, found)
    difference = next(r for r in found.records if r.quantity == "fisher_trace_difference")
    assert (flatter.trace.value, flatter.trace.standard_error) == (
        difference.value,
        difference.standard_error,
    )
    normalised = {
        r.checkpoint: r.value
        for r in measure("normalised_trace", models, batches, Stopping(sentences=8), {}).records
        if r.quantity == "normalised_fisher_trace"
    }
    assert flatter.normalised.value == pytest.approx(normalised["b"] - normalised["a"])
    assert flatter.loss.n == 8
    assert flatter.confidence == same.confidence == pytest.approx(1 - 0.05 / 6)
    assert same.answer == "open"
    assert (same.trace.value, same.loss.value, same.warnings) == (0.0, 0.0, [])
