import pytest
import torch

from enumerated_language import EnumeratedLanguage
from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.measurements.flatness_records import FlatnessSet, flatness, flatness_records
from isoloss.objectives.many_masks import ManyMasksObjective
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.tokens import MASK
from tiny_models import ARCHITECTURES, tiny_model

OBJECTIVE = MaskedObjective()


@pytest.fixture(params=ARCHITECTURES)
def model(request):
    return tiny_model(request.param, words=3, maximum_length=4)


@pytest.fixture
def language():
    return EnumeratedLanguage()


def test_one_masked_position_a_sentence_and_one_set_a_seed(language):
    first, again, other = (FlatnessSet.draw(language, OBJECTIVE, 100, seed) for seed in (1, 1, 2))
    assert torch.equal(first.batch.input_ids, again.batch.input_ids)
    assert not torch.equal(first.batch.input_ids, other.batch.input_ids)
    assert ((first.batch.input_ids == MASK).sum(1) == 1).all()


def test_records_are_the_trace_and_its_parts(model, language):
    drawn = FlatnessSet.draw(language, OBJECTIVE, 50, seed=7)
    trace = flatness(model, OBJECTIVE, drawn)
    assert torch.equal(trace.values, fisher_trace(model, [drawn.batch], OBJECTIVE, seed=7).values)
    whole, *parts = flatness_records(trace, drawn.seed, "step-3", {"step": 3})
    assert (whole.quantity, whole.n, whole.seed, whole.checkpoint) == ("fisher_trace", 50, 7, "step-3")
    assert whole.standard_error == pytest.approx(float(trace.values.std()) / 50**0.5)
    assert whole.settings == {"step": 3, "parameters": model.num_parameters(), "frozen_tensors": 0}
    assert {part.quantity for part in parts} == {"fisher_trace_of_group"}
    assert len({part.settings["group"] for part in parts}) == len(parts) >= 8
    assert sum(part.value for part in parts) == pytest.approx(whole.value, rel=1e-12)


def test_no_sentence_counts_twice_though_trained_in_copies(language):
    drawn, once = (
        FlatnessSet.draw(language, ManyMasksObjective(copies=copies), 20, seed=3) for copies in (5, 1)
    )
    assert torch.equal(drawn.batch.input_ids, once.batch.input_ids)
