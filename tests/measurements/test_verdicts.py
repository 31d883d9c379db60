"""Verdicts of comparisons made by hand: nothing is measured."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from isoloss.corpora.labelled_texts import LabelledTexts, TextTask
from isoloss.measurements.checkpoint_comparison import Comparison, constant_accuracy, difference_of_accuracies
from isoloss.measurements.compared_checkpoints import LOSS, PROBE, TRACE, Checkpoint, families
from isoloss.measurements.flatter_verdict import interval_of_difference
from isoloss.measurements.linear_probe import Accuracy
from isoloss.measurements.measured_models import about
from isoloss.measurements.prediction import MaskedTokens, NextToken, SpecialTokens
from isoloss.measurements.quantity import Measurement
from isoloss.measurements.verdicts import (
    MAJORITY,
    in_words,
    interval_of_accuracies,
    verdicts,
    what_would_decide,
)
from isoloss.results.estimate import Estimate, paired_difference
from isoloss.results.record import Record

SHAPES = (("weight", (2, 2)),)
A = Checkpoint(
    "a", MaskedTokens(), "Bert", 4, 8, "digest of a", "tokenizer", "tokens", SHAPES, SpecialTokens()
)
B = replace(A, name="b", weights="digest of b")
NOISE = torch.randn(200, generator=torch.Generator().manual_seed(900)).double()
TASK = TextTask("t", ("x", "y"), *[LabelledTexts(("q", "r") * 100, None, (0, 1) * 100)] * 3)


def of_sentences(quantity, values):
    record = Record(quantity, float(values.mean()), "", float(values.std() / len(values) ** 0.5), len(values))
    return Measurement((record,), {quantity: values})


def of_probe(right):
    accuracy = Accuracy.of("linear_probe", right.double())
    values = {"correct": accuracy.correct, "by_seed": accuracy.by_seed}
    return Measurement(accuracy.records("", {}), values)


def answers(checkpoints, measured, **options):
    found = verdicts(Comparison(checkpoints, measured, options.pop("task", None)), **options)
    return {(each.measured, each.first, each.second): each.answer for each in found}


def losses(shift, spread=0.0):
    """Both models share the difficulty of a sentence, but not `spread`."""
    first = 3 + NOISE
    return {
        ("a", LOSS): of_sentences("pretraining_loss", first),
        ("b", LOSS): of_sentences("pretraining_loss", first + shift + spread * NOISE.flip(0)),
    }


@pytest.mark.parametrize(
    ("shift", "spread", "answer"),
    [(0.0, 0.0, "yes"), (0.01, 0.01, "yes"), (0.1, 0.01, "no"), (-0.1, 0.01, "no"),
     (0.03, 0.1, "open"), (0.0, 1.0, "open")],
)  # fmt: skip
def test_losses_are_the_same_where_the_whole_interval_is_within_one_percent(shift, spread, answer):
    assert answers((A, B), losses(shift, spread)) == {(LOSS, "a", "b"): answer}


def test_how_close_is_the_same_may_be_chosen():
    assert answers((A, B), losses(0.01, 0.01), same_loss=0.001) == {(LOSS, "a", "b"): "no"}


@pytest.mark.parametrize(("shift", "answer"), [(-0.3, "b"), (0.3, "a"), (0.001, "open")])
def test_the_flatter_one_has_the_smaller_trace(shift, answer):
    measured = {
        ("a", TRACE): of_sentences("fisher_trace", 50 + NOISE),
        # Fewer sentences: those that both have are compared.
        ("b", TRACE): of_sentences("fisher_trace", (50 + NOISE + shift + 0.1 * NOISE.flip(0))[:150]),
    }
    assert answers((A, B), measured) == {(TRACE, "a", "b"): answer}


def test_a_quantity_says_itself_what_a_smaller_value_means():
    measured = {(name, "confidence"): of_sentences("confidence", NOISE + (name == "b")) for name in "ab"}
    less = Comparison((A, B), measured, smaller_is={"confidence": "less confident"})
    assert in_words(verdicts(less)) == "b against a: less confident (confidence): a."
    assert in_words(verdicts(Comparison((A, B), measured))) == "b against a: lower (confidence): a."


def test_accuracies_are_compared_with_one_another_and_with_the_majority():
    generator = torch.Generator().manual_seed(900)
    good = torch.rand(5, 200, generator=generator) < 0.9
    guessing = (torch.rand(1, 200, generator=generator) < 0.5).expand(5, 200)
    measured = {("a", PROBE): of_probe(guessing), ("b", PROBE): of_probe(good)}
    found = answers((A, B), measured, task=TASK)
    assert found[PROBE, "a", "b"] == "b"
    assert found[PROBE, MAJORITY, "b"] == "b"
    assert found[PROBE, MAJORITY, "a"] == "open"


def test_what_is_of_two_things_is_not_asked():
    traces = {(name, TRACE): of_sentences("fisher_trace", 50 + NOISE) for name in "ab"}
    wider = replace(B, shapes=(("weight", (4, 4)),))
    found = answers((A, wider), {**traces, **losses(0.0)})
    assert found[LOSS, "a", "b"] == "yes"
    assert found[TRACE, "a", "b"] == "not asked, their parameters are not the same ones"
    other = replace(B, encoding="other tokens")
    found = answers((A, other), {**traces, **losses(0.0)})
    assert set(found.values()) == {"not asked, their tokenizers differ"}
    causal = replace(B, prediction=NextToken())
    assert answers((A, causal), losses(0.0)) == {(LOSS, "a", "b"): "not asked, a is masked and b causal"}
    assert families([A, other, B]) == [[A, B], [other]]


def test_the_more_is_compared_the_wider_are_the_intervals():
    checkpoints = tuple(replace(A, name=name) for name in "abcd")
    measured = {
        (each.name, LOSS): of_sentences("pretraining_loss", 3 + NOISE.roll(k))
        for k, each in enumerate(checkpoints)
    }
    few, many = (verdicts(Comparison(checkpoints[:k], measured))[0] for k in (2, 4))
    assert few.difference == many.difference
    assert many.high - many.low > 1.2 * (few.high - few.low)


def test_no_words_beyond_what_the_intervals_tell():
    probes = {("a", PROBE): of_probe(torch.zeros(5, 200)), ("b", PROBE): of_probe(torch.ones(5, 200))}
    traces = {
        ("a", TRACE): of_sentences("fisher_trace", 50 + NOISE),
        ("b", TRACE): of_sentences("fisher_trace", 40 + NOISE),
    }
    said = in_words(verdicts(Comparison((A, B), {**losses(0.0), **traces, **probes})))
    assert said == (
        "b against a: same loss to within 1 %: yes; flatter: b; better (probe): b. "
        "At one loss, the flatter is the better."
    )
    said = in_words(verdicts(Comparison((A, B), {**losses(1.0, 0.01), **traces, **probes})))
    assert said.endswith(" a has the lower loss, which alone may account for the rest.")
    said = in_words(verdicts(Comparison((A, B), {**losses(0.0, 1.0), **traces, **probes})))
    assert said == "b against a: same loss to within 1 %: open; flatter: b; better (probe): b."


def test_an_open_question_is_decided_by_about_as_many_sentences_as_are_told():
    def of(copies):
        traces = {
            ("a", TRACE): of_sentences("fisher_trace", (50 + NOISE).repeat(copies)),
            ("b", TRACE): of_sentences("fisher_trace", (49.98 + NOISE + 0.4 * NOISE.flip(0)).repeat(copies)),
        }
        return verdicts(Comparison((A, B), traces))

    found = of(1)
    (open_one,) = found
    assert open_one.answer == "open"
    copies = open_one.needed / 200
    assert copies > 4
    assert of(round(0.8 * copies))[0].answer == "open"
    assert of(round(1.2 * copies))[0].answer == "b"
    assert what_would_decide(found) == (
        f"Open questions would be decided by {about(open_one.needed)} sentences (flatter), if the "
        "differences are those found."
    )
    assert what_would_decide(of(round(1.2 * copies))) == ""


def test_models_that_differ_in_nothing_are_said_to_be_the_same():
    probes = {(name, PROBE): of_probe(torch.eye(5, 200)) for name in "ab"}
    traces = {(name, TRACE): of_sentences("fisher_trace", 50 + NOISE) for name in "ab"}
    found = verdicts(Comparison((A, B), {**losses(0.0), **traces, **probes}))
    assert what_would_decide(found) == "Nothing differs on 200 sentences: a and b are the same model."
    # Nor is more than the task is known to agree where nothing was measured on a text.
    assert "test examples" in what_would_decide(verdicts(Comparison((A, B), probes)))
    probes["b", PROBE] = of_probe(torch.eye(5, 200).flip(1))
    found = verdicts(Comparison((A, B), {**losses(0.0), **traces, **probes}))
    assert "same model" not in what_would_decide(found)


def test_the_interval_is_that_of_a_paired_t_test():
    generator = np.random.default_rng(900)
    a, b = generator.normal(size=(2, 12))
    found = paired_difference(torch.tensor(a), torch.tensor(b))
    low, high = found.interval(0.9)
    expected = stats.ttest_rel(a, b).confidence_interval(0.9)
    assert (low, high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def crossed(generator, n, seeds, of_examples, of_seeds, of_both):
    """Normal numbers for each seed (a row) and example (a column), with mean 0."""
    return (
        of_examples * generator.normal(size=n)
        + of_seeds * generator.normal(size=(seeds, 1))
        + of_both * generator.normal(size=(seeds, n))
    )


@pytest.mark.slow
@pytest.mark.parametrize("spreads", [(1.0, 0.0, 1.0), (1.0, 0.3, 1.0), (0.2, 1.0, 0.2)])
def test_intervals_hold_the_mean_over_new_examples_and_new_seeds(spreads):
    """Whichever of the two varies most: 95 %, or more where the interaction counts twice."""
    generator, held, times = np.random.default_rng(900), 0, 1500
    for _ in range(times):
        right = torch.tensor(crossed(generator, 40, 5, *spreads))
        nothing = constant_accuracy(torch.zeros(40).double(), 5)
        found = difference_of_accuracies(Accuracy.of("made", right), nothing)
        low, high = interval_of_accuracies(found, 0.95)
        held += low <= 0 <= high
    # Three standard errors of 95 % below; never far above what the interaction explains.
    assert 0.95 - 3 * (0.95 * 0.05 / times) ** 0.5 <= held / times <= 0.995


def test_the_error_is_both_of_examples_and_of_seeds():
    right = torch.tensor([[1.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]]).double()
    accuracy = Accuracy.of("made", right)
    found = difference_of_accuracies(accuracy, constant_accuracy(torch.zeros(4).double(), 3))
    parts = right.mean(0).var() / 4, right.mean(1).var() / 3
    assert found.value == pytest.approx(float(right.mean()))
    assert found.standard_error == pytest.approx(math.sqrt(sum(parts)))
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 3 + parts[1] ** 2 / 2)
    assert found.degrees_of_freedom == pytest.approx(float(freedom))


def test_agreement_of_too_few_is_no_certainty():
    assert np.isnan(interval_of_difference(Estimate(1.0, 0.0, 4), 0.95)).all()
    assert interval_of_difference(Estimate(1.0, 0.0, 10), 0.95) == (1.0, 1.0)
    assert interval_of_difference(Estimate(0.0, 0.0, 2), 0.95) == (0.0, 0.0)


@pytest.mark.parametrize("correct", [0.0, 1.0])
def test_accuracies_that_agree_in_every_example_may_differ_in_those_not_seen(correct):
    """By as many as a binomial share of which n examples show none."""
    right = torch.ones(5, 60).double()
    other = constant_accuracy(torch.full((60,), correct).double(), 5)
    found = difference_of_accuracies(Accuracy.of("made", right), other)
    unseen = stats.beta.ppf(0.95, 1, 60)
    low, high = interval_of_accuracies(found, 0.95)
    if correct:
        assert (low, high) == (pytest.approx(-unseen), pytest.approx(unseen))
    else:
        assert (low, high) == (pytest.approx(1 - 2 * unseen), 1.0)
