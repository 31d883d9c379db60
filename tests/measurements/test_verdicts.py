"""Verdicts of comparisons made by hand: nothing is measured."""

from dataclasses import replace

import pytest
import torch

from isoloss.corpora.labelled_texts import LabelledTexts, TextTask
from isoloss.measurements.checkpoint_comparison import Comparison
from isoloss.measurements.checkpoint_measurements import accuracy_measurement
from isoloss.measurements.compared_checkpoints import LOSS, PROBE, TRACE, Checkpoint, families
from isoloss.measurements.linear_probe import Accuracy
from isoloss.measurements.quantity import Measurement
from isoloss.measurements.verdicts import MAJORITY, in_words, verdicts
from isoloss.results.record import Record

SHAPES = (("weight", (2, 2)),)
A = Checkpoint("a", "masked", "Bert", 4, 8, "digest of a", "tokenizer", "tokens", SHAPES)
B = replace(A, name="b", weights="digest of b")
NOISE = torch.randn(200, generator=torch.Generator().manual_seed(900)).double()
TASK = TextTask("t", ("x", "y"), *[LabelledTexts(("q", "r") * 100, None, (0, 1) * 100)] * 3)


def of_sentences(quantity, values):
    record = Record(quantity, float(values.mean()), "", float(values.std() / len(values) ** 0.5), len(values))
    return Measurement((record,), {quantity: values})


def of_probe(right):
    return accuracy_measurement(Accuracy.of("linear_probe", right.double()), "", {})


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
    causal = replace(B, prediction="causal")
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
