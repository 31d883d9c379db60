"""The verdicts that `isoloss flatness` asks for, on tiny models."""

import copy
from dataclasses import replace

import pytest
import torch

from isoloss.corpora.token_sentences import TokenCorpus
from isoloss.curvature.stopping import Stopping
from isoloss.measurements.fixed_sentences import SampledBatches
from isoloss.measurements.measured_models import INTERRUPTED, MeasuredModels, measure, verdicts_on
from isoloss.measurements.prediction import MaskedTokens, SpecialTokens
from isoloss.measurements.verdicts import PairVerdict, what_would_decide
from isoloss.progress import silent
from tiny_language_models import tiny_language_model


def on_tiny_models(models, batches) -> tuple[MeasuredModels, list[PairVerdict]]:
    traces = measure("fisher_trace", models, batches, Stopping(sentences=8), {})
    return traces, verdicts_on([traces], models, batches, silent)


@pytest.fixture
def batches():
    generator = torch.Generator().manual_seed(0)
    sentences = [torch.randint(2, 11, (n,), generator=generator).tolist() for n in (3, 5, 4, 6, 5, 3, 7, 4)]
    return SampledBatches(TokenCorpus(sentences, list(range(1, 9))), MaskedTokens(), 0, SpecialTokens(mask=1))


@pytest.fixture
def models():
    model = tiny_language_model("bert")
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter *= 0.7
    return {"a": model, "b": other, "c": copy.deepcopy(model)}


@pytest.mark.thorough
def test_numbers_are_those_of_the_same_sentences(models, batches):
    _, (loss, trace, normalised, *same) = on_tiny_models(models, batches)
    of_quantities = {"pretraining_loss": loss, "fisher_trace": trace, "normalised_trace": normalised}
    for name, verdict in of_quantities.items():
        alone = measure(name, {each: models[each] for each in "ab"}, batches, Stopping(sentences=8), {})
        difference, found = alone.differences[0], verdict.difference
        assert (found.value, found.standard_error) == (difference.value, difference.standard_error)
        assert found.n == 8
        assert (verdict.low, verdict.high) == found.interval(1 - 0.05 / 6)
    assert [each.answer for each in same] == ["yes", "open", "open"]
    assert what_would_decide(same) == "Nothing differs on 8 sentences: a and c are the same model."


@pytest.mark.thorough
def test_verdicts_of_other_quantities_and_of_other_parameters(models, batches):
    _, (*_, trace, _) = on_tiny_models(models, batches)
    frozen = copy.deepcopy(models["a"])
    next(frozen.parameters()).requires_grad_(False)
    few = measure("unit_trace", models, batches, Stopping(sentences=8), {})
    loss, units, *_ = verdicts_on([few], models, batches, silent)
    assert (loss.measured, units.question, units.measured) == ("loss", "flatter", "unit_trace")
    difference = few.measurements["b"].minus(few.measurements["a"])
    assert units.difference == difference
    alone = replace(trace, measured="normalised_trace", difference=difference)
    assert what_would_decide([alone]).startswith("Open")
    losses = measure("pretraining_loss", models, batches, Stopping(sentences=8), {})
    assert [each.measured for each in verdicts_on([losses], models, batches, silent)] == ["loss"] * 2
    assert verdicts_on([replace(few, stopped=INTERRUPTED)], models, batches, silent) == []
    measured, (loss, *traces) = on_tiny_models({"a": models["a"], "b": frozen}, batches)
    assert not measured.differences
    assert loss.answer == "yes"
    assert {each.answer for each in traces} == {"not asked, their parameters are not the same ones"}
