"""Verdicts on two models: flatter or not, and what invalidates the question."""

import copy
from dataclasses import replace

import pytest
import torch

from isoloss.corpora.token_sentences import TokenCorpus
from isoloss.curvature.stopping import Stopping
from isoloss.measurements.measured_models import measure
from isoloss.measurements.sampled_batches import SampledBatches, ShareMasked
from isoloss.measurements.verdicts import FlatterVerdict, flatter_verdicts
from isoloss.results.estimate import Estimate
from tiny_language_models import tiny_language_model


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
    batches = SampledBatches(TokenCorpus(sentences, list(range(1, 9))), ShareMasked(1), seed=0)
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
