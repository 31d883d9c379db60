"""What is lost of losses and of their rise where a model's weights are in half precision."""

import pytest
import torch

from isoloss.corpora.token_sentences import TokenCorpus
from isoloss.curvature.loss import BatchLoss
from isoloss.measurements.fixed_sentences import SampledBatches
from isoloss.measurements.on_sentences.directions import (
    CriticalSharpnessQuantity,
    RelativeCriticalSharpnessQuantity,
)
from isoloss.measurements.on_sentences.local_learning_coefficient import LocalLearningCoefficientQuantity
from isoloss.measurements.on_sentences.loss_rise import AscentSharpnessQuantity, NoiseSensitivityQuantity
from isoloss.measurements.on_sentences.pretraining_loss import RunningSentenceLosses
from isoloss.measurements.prediction import NextToken, SpecialTokens
from isoloss.measurements.quantity import Quantity, Subject, warnings_of
from isoloss.objectives.pretrained import PretrainedCausal, next_token_batch
from isoloss.progress import silent
from thorough_cases import others_thorough
from tiny_language_models import tiny_language_model

SENTENCES = [[(3 * i + j * j) % 9 + 2 for j in range(2 + i % 5)] for i in range(16)]


def test_a_mean_of_losses_is_as_exact_as_the_losses_one_by_one() -> None:
    model, batch = tiny_language_model("gpt2").bfloat16(), next_token_batch(SENTENCES, pad=0)
    one_by_one = RunningSentenceLosses(model, PretrainedCausal())
    one_by_one.add(batch)
    found = BatchLoss(model, PretrainedCausal(), batch)
    exact = one_by_one.result().values
    torch.testing.assert_close(found.values(), exact, rtol=1e-6, atol=0)
    torch.testing.assert_close(found.mean().double(), exact.mean(), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    "quantity",
    others_thorough(
        [
            AscentSharpnessQuantity(16, 0),
            RelativeCriticalSharpnessQuantity(16, 0),
            CriticalSharpnessQuantity(16, 0),
            NoiseSensitivityQuantity((0.1, 0.2), 16, 0, own=True),
            LocalLearningCoefficientQuantity(16, 0, chains=2, burn_in=1, draws=2),
        ],
        quick=2,
    ),
)
def test_steps_that_half_precision_rounds_are_warned_of_once(quantity: Quantity) -> None:
    batches = SampledBatches(TokenCorpus(SENTENCES, list(range(16))), NextToken(), 0, SpecialTokens())
    drawn = quantity.draw(batches, PretrainedCausal(), silent)
    subject = Subject("a", PretrainedCausal(), {}, batches)
    model = tiny_language_model("gpt2")
    coarse, fine = (
        warnings_of(quantity.measure(model.to(precision), drawn, subject, silent).records)
        for precision in (torch.bfloat16, torch.float32)
    )
    assert [warning for warning in coarse if "rounded to its weights' bfloat16" in warning] == coarse
    assert len(coarse) == 1
    assert not any("rounded" in warning for warning in fine)
