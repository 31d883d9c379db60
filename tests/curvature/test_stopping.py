import pytest
import ragged_batches
import torch

from isoloss.curvature.fisher_trace import RunningFisherTrace
from isoloss.curvature.hessian_trace import RunningHessianTrace
from isoloss.curvature.stopping import FEWEST, Stopping, measure_until
from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences
from isoloss.objectives.batch import sentences_between
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.results.estimate import Estimate, sample_mean
from tiny_models import ARCHITECTURES, tiny_model

BATCH = ragged_batches.one_mask()


class Replayed:
    """Values fixed in advance, one per sentence."""

    def __init__(self, values):
        self.values, self.sentences = values, 0

    def add(self, batch, share=lambda done: None):
        share(0.5)
        self.sentences += len(batch)

    @property
    def estimate(self):
        return sample_mean(self.values[: self.sentences]) if self.sentences > 1 else None


def measured(values, stopping, batches=200):
    running = Replayed(torch.as_tensor(values).double())
    return measure_until([running], [BATCH] * batches, stopping, task="x"), running.sentences


def test_it_stops_at_the_relative_error_and_never_before_the_fewest():
    values = torch.tensor([1.0, 3.0]).repeat(600)
    # Relative error about 1 / (2 √n): 0.02 at n = 625.
    reason, sentences = measured(values, Stopping(relative_error=0.02))
    assert reason == "the requested relative error was reached"
    assert 625 <= sentences <= 631
    equal = torch.ones(1200)
    assert measured(equal, Stopping(relative_error=0.02))[1] == -(-FEWEST // 6) * 6


def test_the_fewest_are_enough_and_one_less_is_not():
    reasons = [Stopping(0.1).reason([Estimate(1.0, 0.01, n)], n, 0.0) for n in (FEWEST - 1, FEWEST)]
    assert reasons == [None, "the requested relative error was reached"]


def test_budgets():
    values = torch.tensor([1.0, 3.0]).repeat(600)
    assert measured(values, Stopping(sentences=20)) == ("the number of sentences allowed was reached", 20)
    assert measured(values, Stopping(seconds=1e-9)) == ("the time allowed was over", 6)
    assert measured(values, Stopping(0.001), batches=3) == ("the sentences ended", 18)
    reason, sentences = measured(values, Stopping(relative_error=0.1, sentences=800, seconds=1000.0))
    assert (reason, sentences) == ("the requested relative error was reached", FEWEST + 2)


def test_every_estimate_must_be_good():
    good, bad = Replayed(torch.ones(1200).double()), Replayed(torch.tensor([1.0, 3.0]).double().repeat(600))
    assert measure_until([good, bad], [BATCH] * 200, Stopping(0.02), task="x").startswith(
        "the requested relative"
    )
    assert good.sentences == bad.sentences >= 625


def test_a_value_of_zero_reaches_no_relative_error():
    values = torch.tensor([-1.0, 1.0]).repeat(600)
    assert measured(values, Stopping(0.5))[0] == "the sentences ended"


@pytest.mark.slow
def test_error_bars_cover_also_where_the_error_itself_stopped():
    """1,000 runs with skewed values, stopped between 72 and some 180 sentences."""
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(1000, 600, generator=generator, dtype=torch.float64).mul(0.6).exp()
    truth, covered, lengths = float(torch.tensor(0.18).exp()), 0, set()
    eighteen = NextWordObjective().every_prediction(Sentences.from_lists([[0]] * 18))
    for values in draws:
        running = Replayed(values)
        measure_until([running], [eighteen] * 33, Stopping(0.06), task="x")
        covered += abs(running.estimate.value - truth) < 1.96 * running.estimate.standard_error
        lengths.add(running.sentences)
    assert len(lengths) > 3
    assert min(lengths) >= FEWEST
    assert 0.93 < covered / 1000 < 0.97


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"relative_error": 0.0}, "the relative error asked must be above 0 and below 1, not 0.0"),
        ({"relative_error": 2.0}, "must be above 0 and below 1, not 2.0; 0.02 is 2 %"),
        ({"relative_error": float("nan")}, "must be above 0"),
        ({"sentences": 1}, "a standard error takes at least 2 sentences, not 1"),
        ({"seconds": -1.0}, "must be above 0, not -1.0"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, sentence):
    with pytest.raises(BadInput, match=sentence):
        Stopping(**settings)


def test_nothing_to_measure_is_refused():
    with pytest.raises(BadInput, match="no sentences to measure on"):
        measured(torch.ones(1), Stopping(), batches=0)
    with pytest.raises(BadInput, match="a standard error takes at least 2 sentences, not 1"):
        measure_until(
            [Replayed(torch.ones(1).double())], [sentences_between(BATCH, 0, 1)], Stopping(), task="x"
        )


def test_progress_says_how_far_it_probably_is():
    reports = []
    running = Replayed(torch.tensor([1.0, 3.0]).double().repeat(600))

    measure_until(
        [running], [BATCH] * 200, Stopping(0.05), task="x", expected=1200,
        progress=lambda _, *told: reports.append(told),
    )  # fmt: skip
    assert reports[0][1] <= 1200
    assert all(done < total for done, total, _ in reports[:-1])
    assert reports[-1][0] == reports[-1][1] == running.sentences
    assert reports[-1][2].startswith("2.000 ± ")


def test_an_error_too_small_for_any_text_is_asked_for_until_the_text_ends():
    values = torch.tensor([1.0, 3.0]).repeat(600)
    reports = []

    running, told = Replayed(values.double()), lambda _, *told: reports.append(told[:2])
    reason = measure_until([running], [BATCH] * 20, Stopping(1e-300), task="x", progress=told)
    assert (reason, running.sentences) == ("the sentences ended", 120)
    assert all(done < total for done, total in reports[:-1])


@pytest.mark.parametrize("of", [RunningFisherTrace, RunningHessianTrace])
def test_progress_moves_within_a_batch_and_never_back(of):
    model = tiny_model(ARCHITECTURES[0], ragged_batches.WORDS, ragged_batches.LENGTH)
    done = []
    running = of(model, MaskedObjective(), seed=0)
    measure_until(
        [running],
        [BATCH],
        Stopping(),
        task="x",
        progress=lambda _, now, total, __="": done.append((now, total)),
    )
    first = [now for now, total in done[:-1]]
    assert len(set(first)) > 10
    assert first == sorted(first)
    assert all(now < total for now, total in done[:-1])
    assert done[-1] == (len(BATCH), len(BATCH))
