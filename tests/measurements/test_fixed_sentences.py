import pytest
import torch

from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.errors import BadInput
from isoloss.measurements.fixed_sentences import FixedSentences
from isoloss.measurements.on_sentences.gradients import GradientNoiseScaleQuantity
from isoloss.measurements.on_sentences.traces import TraceQuantity
from isoloss.measurements.quantity import Subject
from isoloss.objectives.batch import sentences_between
from isoloss.objectives.masked import ManyMasksObjective, MaskedObjective
from isoloss.objectives.tokens import MASK
from isoloss.progress import silent

OBJECTIVE = MaskedObjective()


def test_one_masked_position_a_sentence_and_one_set_a_seed(language):
    sets = (FixedSentences.draw(language, OBJECTIVE, 100, seed) for seed in (1, 1, 2))
    (first,), (again,), (other,) = (each.batches for each in sets)
    assert torch.equal(first.input_ids, again.input_ids)
    assert not torch.equal(first.input_ids, other.input_ids)
    assert ((first.input_ids == MASK).sum(1) == 1).all()


def test_records_are_the_trace_and_its_parts(model, language):
    quantity = TraceQuantity(50, seed=7)
    drawn = quantity.draw(language, OBJECTIVE, silent)
    trace = fisher_trace(model, drawn.batches, OBJECTIVE, seed=7)
    subject = Subject("step-3", OBJECTIVE, {"step": 3}, language)
    measured = quantity.measure(model, drawn, subject, silent)
    assert torch.equal(trace.values, measured.values["fisher_trace"])
    whole, *parts = measured.records
    assert (whole.quantity, whole.n, whole.seed, whole.checkpoint) == ("fisher_trace", 50, 7, "step-3")
    assert whole.standard_error == pytest.approx(float(trace.values.std()) / 50**0.5)
    assert whole.settings == {"step": 3, "parameters": model.num_parameters(), "frozen_tensors": 0}
    assert {part.quantity for part in parts} == {"fisher_trace_of_group"}
    assert len({part.settings["group"] for part in parts}) == len(parts) >= 8
    assert sum(part.value for part in parts) == pytest.approx(whole.value, rel=1e-12)


def test_no_sentence_counts_twice_though_trained_in_copies(language):
    sets = (FixedSentences.draw(language, ManyMasksObjective(copies=copies), 20, seed=3) for copies in (5, 1))
    (drawn,), (once,) = (each.batches for each in sets)
    assert torch.equal(drawn.input_ids, once.input_ids)


@pytest.mark.parametrize(
    ("rows", "same"), [((0, 0, 0), "every sentence has"), ((0, 0, 1), "all sentences but one have")]
)
def test_there_is_no_noise_scale_without_sentences_that_differ(model, language, rows, same):
    quantity = GradientNoiseScaleQuantity(3, seed=7)
    (batch,) = quantity.draw(language, OBJECTIVE, silent).batches
    drawn = FixedSentences(tuple(sentences_between(batch, row, row + 1) for row in rows))
    subject = Subject("step-3", OBJECTIVE, {"step": 3}, language)
    with pytest.raises(BadInput, match=f"step-3: {same} the same gradient"):
        quantity.measure(model.float(), drawn, subject, silent)
