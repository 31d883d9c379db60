"""Which of fine-tuning's models is reported."""

import pytest
import torch
from torch import nn

from isoloss.errors import BadInput
from isoloss.experiments.languages import headline_grammar
from isoloss.languages.task import task_splits
from isoloss.measurements import accuracy, fine_tuning
from isoloss.measurements.accuracy import AccuracyQuantity, FineTuning
from isoloss.measurements.fine_tuning import FineTuningSettings, classifier_of, fine_tune, fine_tune_seed
from isoloss.measurements.labelled_inputs import SentenceInputs
from isoloss.measurements.linear_probe import Accuracy
from isoloss.measurements.quantity import Subject
from isoloss.measurements.task_sentences import TaskSentences
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.progress import silent

LANGUAGE = headline_grammar()
TASK = LANGUAGE.tasks()[0]
MODEL = PreLayerNormTransformer(laptop_shape(16), dropout=0.0).build(len(LANGUAGE.vocabulary), 8, seed=1)
SETTINGS = FineTuningSettings(seeds=(0, 1), epochs=2, learning_rate=1e-2, warm_up_steps=1, batch_size=16)
SUBJECT = Subject("a checkpoint", MaskedObjective(), {"measured_on": "sentences"}, LANGUAGE)


def test_the_accuracy_of_fine_tuning_is_the_best_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    best, last = torch.tensor([[1, 1, 1, 0]] * 2), torch.tensor([[1, 0, 0, 0]] * 2)
    result = Accuracy.of("fine_tuning_best", best.double()), Accuracy.of("fine_tuning_last", last.double())
    monkeypatch.setattr(accuracy, "fine_tune", lambda *_: result)
    quantity = AccuracyQuantity(TaskSentences(TASK.name, 20, 10, 4, seed=0), FineTuning(SETTINGS))
    drawn = quantity.draw(LANGUAGE, MaskedObjective(), silent)
    records = quantity.measure(MODEL, drawn, SUBJECT, silent).records
    assert [record.value for record in records] == [0.75, 0.0, 0.25, 0.0]
    assert quantity.columns(records)["accuracy"] == 0.75


def test_a_model_of_a_language_is_fine_tuned_on_its_task_and_one_of_another_is_refused() -> None:
    quantity = AccuracyQuantity(TaskSentences(TASK.name, 40, 10, 30, seed=0), FineTuning(SETTINGS))
    drawn = quantity.draw(LANGUAGE, MaskedObjective(), silent)
    records = quantity.measure(MODEL, drawn, SUBJECT, silent).records
    found = fine_tune(MODEL, SentenceInputs.of(drawn, TASK.classes), SETTINGS)
    assert [each.value for each in records[::2]] == [each.estimate.value for each in found]
    other = PreLayerNormTransformer(laptop_shape(16)).build(3, 8, seed=1)
    with pytest.raises(BadInput, match="but the model knows 3 words"):
        quantity.measure(other, drawn, SUBJECT, silent)


def test_of_epochs_with_equal_validation_the_first_ones_model_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []

    def always_right(model: nn.Module, *_: object) -> torch.Tensor:
        seen.append(next(model.parameters()).detach().clone())
        return torch.tensor([True])

    monkeypatch.setattr(fine_tuning, "_right", always_right)
    splits = SentenceInputs.of(task_splits(TASK, 64, 10, 10, 0), TASK.classes)
    found = fine_tune_seed(classifier_of(MODEL, TASK.classes, 0, 0), splits, SETTINGS, seed=0)
    first, second, last, best = seen
    assert found.best_epoch == 1
    assert torch.equal(best, first)
    assert torch.equal(last, second)
    assert not torch.equal(first, second)
