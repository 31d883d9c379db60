"""Every type in the mappings of `transformers`, compared with ordinary gradients or refused in a sentence."""

import pytest
from measured_types import outcome
from tiny_of_every_type import TYPES

from thorough_cases import others_thorough

QUICK = {
    ("masked", "perceiver"): "factors, 50 of 57 tensors by per-sentence gradients",
    ("masked", "xlm"): "factors",
    ("masked", "deberta"): "factors, 6 of 41 tensors by per-sentence gradients",
    ("masked", "fnet"): "factors; equally long sentences at a time",
    ("causal", "gemma3"): "factors",
    ("causal", "mixtral"): "factors",
}
"""A few of each kind, with sizes and structures that others share."""


@pytest.mark.parametrize(("predicts", "model_type"), others_thorough(QUICK, quick=2))
def test_some_of_each_kind(predicts, model_type):
    found = outcome(model_type, predicts)
    assert found.answer == "measured", found.how
    assert found.how.startswith(QUICK[predicts, model_type].split(",")[0].split(";")[0])


def test_a_model_that_reads_ahead_is_refused():
    found = outcome("xlnet", "causal")
    assert found.answer == "refused"
    assert found.how.startswith("it: XLNetLMHeadModel sees the token that it is to predict")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("predicts", "model_type"), [(predicts, name) for predicts, names in TYPES.items() for name in names]
)
def test_every_type(predicts, model_type):
    found = outcome(model_type, predicts)
    if found.answer == "skipped":
        pytest.skip(found.how)
    assert found.answer in ("measured", "refused"), found.how
