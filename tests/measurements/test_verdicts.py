"""Verdicts on numbers made by hand."""

import math
import re
from dataclasses import replace

import pytest
import torch

from isoloss.corpora.labelled_texts import LabelledTexts, TextTask
from isoloss.measurements.checkpoint_comparison import Comparison
from isoloss.measurements.compared_checkpoints import Checkpoint, families
from isoloss.measurements.linear_probe import Accuracy
from isoloss.measurements.prediction import MaskedTokens, NextToken, SpecialTokens
from isoloss.measurements.quantity import Measurement
from isoloss.measurements.verdicts import (
    LOSS,
    MAJORITY,
    NORMALISED,
    PROBE,
    SIZES,
    TRACE,
    PairVerdict,
    about,
    answered,
    conclusions,
    in_words,
    what_would_decide,
)
from isoloss.results.estimate import Estimate
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


def of_probe(right, model=""):
    accuracy = Accuracy.of("linear_probe", right.double())
    values = {"correct": accuracy.correct, "by_seed": accuracy.by_seed}
    return Measurement(accuracy.records(model, {}), values)


def answers(checkpoints, measured, **options):
    found = Comparison(checkpoints, measured, options.pop("task", None)).verdicts(**options)
    return {(each.measured, each.first, each.second): each.answer for each in found}


def losses(shift, spread=0.0):
    """Both models share the difficulty of a sentence, but not `spread`."""
    first = 3 + NOISE
    return {
        ("a", LOSS): of_sentences("pretraining_loss", first),
        ("b", LOSS): of_sentences("pretraining_loss", first + shift + spread * NOISE.flip(0)),
    }


def traces(first=50 + NOISE, second=50 + NOISE):
    return {
        ("a", TRACE): of_sentences("fisher_trace", first),
        ("b", TRACE): of_sentences("fisher_trace", second),
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
    # Fewer sentences: those that both have are compared.
    measured = traces(second=(50 + NOISE + shift + 0.1 * NOISE.flip(0))[:150])
    assert answers((A, B), measured) == {(TRACE, "a", "b"): answer}


def test_a_quantity_says_itself_what_a_smaller_value_means():
    measured = {(name, "confidence"): of_sentences("confidence", NOISE + (name == "b")) for name in "ab"}
    less = Comparison((A, B), measured, smaller_is={"confidence": "less confident"})
    assert in_words(less.verdicts()).startswith("b against a: less confident (confidence): a (1 ± 0")
    lower = in_words(Comparison((A, B), measured).verdicts())
    assert lower.startswith("b against a: lower (confidence): a (1 ± 0")


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
    wider = replace(B, shapes=(("weight", (4, 4)),))
    found = answers((A, wider), {**traces(), **losses(0.0)})
    assert found[LOSS, "a", "b"] == "yes"
    assert found[TRACE, "a", "b"] == "not asked, their parameters are not the same ones"
    other = replace(B, encoding="other tokens")
    found = answers((A, other), {**traces(), **losses(0.0)})
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
    few, many = (Comparison(checkpoints[:k], measured).verdicts()[0] for k in (2, 4))
    assert few.difference == many.difference
    assert many.high - many.low > 1.2 * (few.high - few.low)


def test_no_words_beyond_what_the_intervals_tell():
    probes = {("a", PROBE): of_probe(torch.zeros(5, 200)), ("b", PROBE): of_probe(torch.ones(5, 200))}
    others = {**traces(second=40 + NOISE), **probes}
    said = in_words(Comparison((A, B), {**losses(0.0), **others}).verdicts())
    assert said == (
        "b against a: same loss to within 1 %: yes (0 ± 0); flatter: b (-10 ± 0); "
        "better (probe): b (1 ± 0). At one loss, the flatter is the better."
    )
    said = in_words(Comparison((A, B), {**losses(1.0, 0.01), **others}).verdicts())
    assert said.endswith(" a has the lower loss, which alone may account for the rest.")
    said = in_words(Comparison((A, B), {**losses(0.0, 1.0), **others}).verdicts(0.02))
    assert "same loss to within 2 %: open" in said
    assert said.endswith(" The losses may differ by more, which alone may account for the rest.")
    alone = in_words(Comparison((A, B), losses(0.0, 1.0)).verdicts())
    assert alone.startswith("b against a: same loss to within 1 %: open (")
    assert alone.endswith(").")


def test_a_record_of_an_accuracy_has_the_error_over_examples_and_seeds():
    right = (torch.rand(5, 200, generator=torch.Generator().manual_seed(0)) < 0.7).double()
    right[0] = 1
    probes = {("a", PROBE): of_probe(right, "a"), ("b", PROBE): of_probe(1 - right, "b")}
    comparison = Comparison((A, B), probes)
    shown = {
        each.checkpoint: each.standard_error
        for each in comparison.records
        if each.quantity == "linear_probe_accuracy"
    }
    assert shown == {
        each.name: comparison.number(each, PROBE).standard_error for each in comparison.checkpoints
    }
    assert shown["a"] > 1.5 * float(right.mean(0).std()) / 200**0.5


def test_a_model_may_be_called_open():
    differences = {
        "same loss": (LOSS, Estimate(0.0, 0.0001, 200)),
        "flatter": (TRACE, Estimate(0.1, 5.0, 200)),
        "better": (PROBE, Estimate(0.001, 0.02, 200)),
    }
    asked = [
        PairVerdict(question, measured, "open", "b", difference=difference)
        for question, (measured, difference) in differences.items()
    ]
    undecided = answered(asked, {"open": 2.0})
    assert [each.answer for each in undecided] == ["yes", "open", "open"]
    assert "At one loss" not in in_words(undecided)
    asked[1] = replace(asked[1], difference=Estimate(5.0, 0.1, 200))
    asked[2] = replace(asked[2], difference=Estimate(-0.5, 0.02, 200))
    decided = answered(asked, {"open": 2.0})
    assert in_words(decided).endswith(" At one loss, the flatter is the better.")
    assert what_would_decide(decided) == ""


@pytest.mark.parametrize(("seeds", "questions", "gain"), [(6, 1, 0.02), (3, 4, 0.1), (2, 2, 0.1)])
def test_of_accuracies_it_is_told_how_many_times_as_many_examples_and_seeds_decide(seeds, questions, gain):
    """Intervals over few seeds are wide for want of degrees of freedom, of which more seeds have more."""
    chosen = torch.Generator().manual_seed(900)
    first = torch.rand(seeds, 400, generator=chosen) < 0.6
    better = first | (torch.rand(seeds, 400, generator=chosen) < gain)
    better[0] = first[0] & (torch.rand(400, generator=chosen) < 0.99)

    def of(times):
        once = Accuracy.of("linear_probe", better.double()).minus(Accuracy.of("linear_probe", first.double()))
        freedom = times * (once.degrees_of_freedom + 1) - 1
        more = Estimate(once.value, once.standard_error / times**0.5, round(times * once.n), freedom)
        asked = [PairVerdict("better", PROBE, "a", "b", difference=more)] * questions
        return answered(asked, {})[0]

    open_one = of(1)
    assert open_one.answer == "open"
    times = open_one.needed / open_one.difference.n
    assert of(0.95 * times).answer == "open"
    assert of(1.05 * times).answer == "b"
    told = re.search(
        r"by about ([\d.,]+) times as many test examples and seeds \(probe\)", what_would_decide([open_one])
    )
    assert times <= float(told[1].replace(",", "")) <= 1.1 * times + 0.1
    other = PairVerdict("lower", "top_eigenvalue", "a", "b", difference=open_one.difference)
    (other,) = answered([other], {})
    assert "times as many sentences or draws (top eigenvalue)" in what_would_decide([other])


def test_that_many_times_as_many_examples_and_seeds_decide_when_they_are_there():
    chosen = torch.Generator().manual_seed(900)
    first = torch.rand(6, 40, generator=chosen) < 0.6
    better = first | (torch.rand(6, 40, generator=chosen) < 0.3)
    better[0] = first[0] & (torch.rand(40, generator=chosen) < 0.7)

    def of(copies):
        named = zip("ab", (first, better), strict=True)
        probes = {(name, PROBE): of_probe(each.repeat(copies, copies)) for name, each in named}
        return next(each for each in Comparison((A, B), probes).verdicts() if each.first == "a")

    times = of(1).needed / of(1).difference.n
    assert times > 2
    assert of(math.floor(0.7 * times)).answer == "open"
    assert of(math.ceil(1.2 * times)).answer == "b"


@pytest.mark.parametrize(
    "difference", [Estimate(0.1, math.nan, 50), Estimate(1e-160, 0.1, 50), Estimate(0.0, 0.1, 9)]
)
def test_nothing_is_told_to_decide_what_nothing_decides(difference):
    (found,) = answered([PairVerdict("flatter", TRACE, "a", "b", difference=difference)], {})
    assert (found.answer, found.needed) == ("open", math.inf)


def test_models_that_differ_in_nothing_are_said_to_be_the_same():
    probes = {(name, PROBE): of_probe(torch.eye(5, 200)) for name in "ab"}
    found = Comparison((A, B), {**losses(0.0), **traces(), **probes}).verdicts()
    assert what_would_decide(found) == "Nothing differs on 200 sentences: a and b are the same model."
    # Nor is more than the task is known to agree where nothing was measured on a text.
    assert "test examples" in what_would_decide(Comparison((A, B), probes).verdicts())
    probes["b", PROBE] = of_probe(torch.eye(5, 200).flip(1))
    found = Comparison((A, B), {**losses(0.0), **traces(), **probes}).verdicts()
    assert "same model" not in what_would_decide(found)


SETTLED = Estimate(0.0, 0.001, 200)
BELOW_ZERO = Estimate(-5.0, 1.0, 200)


def on_a_text(loss=SETTLED, trace=BELOW_ZERO, normalised=BELOW_ZERO):
    """The verdicts of `isoloss flatness` on a model b beside a, whose loss is 2 nats."""
    asked = [("same loss", LOSS, loss), ("flatter", TRACE, trace), ("flatter", NORMALISED, normalised)]
    return answered([PairVerdict(q, name, "a", "b", difference=d) for q, name, d in asked], {"a": 2.0})


def with_more(estimate, sentences):
    shrunk = estimate.standard_error * (estimate.n / sentences) ** 0.5
    return Estimate(estimate.value, shrunk, int(sentences))


@pytest.mark.parametrize("trace", [-5.0, -1.0, 0.5, 2.0])
@pytest.mark.parametrize("loss", [SETTLED, Estimate(0.015, 0.01, 200), Estimate(0.04, 0.02, 200)])
def test_that_many_sentences_decide_and_half_as_many_do_not(trace, loss):
    verdicts = on_a_text(loss, Estimate(trace, 2.5, 200))
    for place, each in enumerate(verdicts[:2]):
        if each.answer != "open":
            assert math.isnan(each.needed)
            continue
        assert f"{about(each.needed)} sentences ({each.question})" in what_would_decide(verdicts)

        def on(sentences, each=each, place=place):
            changed = {("loss", "trace")[place]: with_more(each.difference, sentences)}
            return on_a_text(**{"loss": loss, "trace": Estimate(trace, 2.5, 200)} | changed)[place].answer

        assert on(1.01 * each.needed) != "open"
        assert on(0.5 * each.needed) == "open"


def test_sentences_of_the_same_spread_decide_as_is_told():
    def of(copies):
        other = (49.98 + NOISE + 0.4 * NOISE.flip(0)).repeat(copies)
        return Comparison((A, B), traces((50 + NOISE).repeat(copies), other)).verdicts()

    (open_one,) = of(1)
    copies = open_one.needed / 200
    assert copies > 4
    assert of(round(0.8 * copies))[0].answer == "open"
    assert of(round(1.2 * copies))[0].answer == "b"
    assert what_would_decide(of(1)) == (
        f"Open questions would be decided by {about(open_one.needed)} sentences (flatter), if the "
        "differences are those found."
    )
    assert what_would_decide(of(round(1.2 * copies))) == ""


def test_more_sentences_are_asked_for_than_there_are():
    asked = PairVerdict("same loss", LOSS, "a", "b", difference=Estimate(0.36, 0.112, 20))
    never = [
        PairVerdict("flatter", str(number), "a", "b", difference=asked.difference) for number in range(5)
    ]
    found, *_ = answered([asked, *never], {"a": 3.2})
    assert (found.answer, math.ceil(found.needed)) == ("open", 21)
    assert "by about 21 sentences (same loss to within 1 %)" in what_would_decide([found])


def test_few_sentences_have_a_wide_interval():
    """Student's: 1.96 errors of two sentences hold nothing in three cases of ten."""
    asked = PairVerdict("flatter", TRACE, "a", "b")
    few, more = (replace(asked, difference=Estimate(-5.0, 1.0, n)) for n in (2, 6))
    assert [answered([each], {})[0].answer for each in (few, more)] == ["open", "b"]
    drawn = torch.randn(20_000, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    means, errors = drawn.mean(dim=1), drawn.std(dim=1) / 2
    _, reach = Estimate(0.0, 1.0, 4).interval(0.95)
    assert float((means.abs() <= reach * errors).double().mean()) == pytest.approx(0.95, abs=0.006)


def test_several_questions_share_the_chance_of_an_error():
    asked = PairVerdict("flatter", TRACE, "a", "b", difference=Estimate(-2.1, 1.0, 99))
    alone, _ = answered([asked, PairVerdict("lower", "own", "a", "b", "not asked")], {})
    assert [alone.answer, *(each.answer for each in answered([asked] * 2, {}))] == ["b", "open", "open"]


def test_a_rescaling_that_may_be_all_there_is_to_it_is_said():
    (said,) = conclusions(on_a_text(normalised=Estimate(1.0, 0.1, 200)))
    assert "flatter: b (-5.0 ± 1.0); flatter (normalised_trace): a (1.00 ± 0.10). Relative to" in said
    assert said.endswith("it is the other way round, so that a rescaling may be all there is to it.")
    (said,) = conclusions(on_a_text(normalised=Estimate(0.0, 0.1, 200)))
    assert said.endswith("flatter (normalised_trace): open (0.00 ± 0.10).")


def test_why_sizes_matter_is_said_once():
    checkpoints = (
        A,
        *(replace(A, name=name, shapes=(("weight", (size, 2)),)) for name, size in (("b", 4), ("c", 6))),
    )
    measured = {(each.name, TRACE): of_sentences("fisher_trace", 50 + NOISE) for each in checkpoints}
    told = conclusions(Comparison(checkpoints, measured).verdicts())
    assert told[0] == "b against a: flatter: not asked, their parameters are not the same ones."
    assert told[3:] == [SIZES]


def test_what_has_no_number_is_null_in_json():
    undecided, none = (
        PairVerdict("lower", "x", "a", "b", needed=math.inf),
        PairVerdict("lower", "x", "a", "b"),
    )
    assert undecided.as_json["needed"] is none.as_json["low"] is none.as_json["difference"] is None
    assert on_a_text()[1].as_json["difference"]["value"] == -5.0
