"""The probe and fine-tuning on texts, masked and causal."""

import random
from dataclasses import replace

import pytest
import torch

from isoloss.corpora.labelled_texts import LabelledTexts, TextTask
from isoloss.errors import BadInput
from isoloss.measurements.fine_tuning import fine_tune_text, fine_tune_text_seed, fine_tuning_inputs
from isoloss.measurements.fine_tuning_run import FineTuningSettings, classifier_of
from isoloss.measurements.labelled_inputs import text_inputs
from isoloss.measurements.linear_probe import ProbeSettings, linear_probe
from isoloss.measurements.task_texts import majority_correct, majority_record, task_features, text_features
from tiny_text_models import WORDS, text_model, text_tokenizer

PROBE = ProbeSettings(seeds=(0, 1), epochs=30, learning_rate=1e-2, batch_size=32)
FAST = FineTuningSettings(seeds=(0, 1), epochs=8, learning_rate=3e-3, warm_up_steps=5, batch_size=16)


def examples(n, seed):
    """Texts of 1 to 6 words from the half of WORDS given by the label."""
    chosen = random.Random(seed)
    labels = [chosen.randint(0, 1) for _ in range(n)]
    halves = WORDS[4:], WORDS[:4]
    texts = tuple(" ".join(chosen.choices(halves[label], k=chosen.randint(1, 6))) for label in labels)
    return LabelledTexts(texts, None, tuple(labels))


TASK = TextTask("half", ("late", "early"), examples(200, 1), examples(40, 2), examples(60, 3))


@pytest.mark.parametrize("causal", [False, True])
def test_the_probe_is_a_linear_probe_of_standardised_features(causal):
    model, tokenizer = text_model(causal), text_tokenizer(causal)
    found = task_features(model, tokenizer, TASK).probed(PROBE)
    train, test = (text_features(model, tokenizer, part) for part in (TASK.train, TASK.test))
    mean, deviation = train.mean(0), train.std(0, correction=0)
    labels = [torch.tensor(part.labels) for part in (TASK.train, TASK.test)]
    expected = linear_probe(
        (train - mean) / deviation, labels[0], (test - mean) / deviation, labels[1], 2, PROBE
    )
    torch.testing.assert_close(found.correct, expected.correct)
    assert found.estimate.value > 0.7


def test_the_unit_of_a_models_vectors_changes_nothing():
    model, tokenizer = text_model(), text_tokenizer()
    before = task_features(model, tokenizer, TASK).probed(PROBE)
    last = model.bert.encoder.layer[-1].output.LayerNorm
    with torch.no_grad():
        last.weight *= 64
        last.bias *= 64
    assert torch.equal(task_features(model, tokenizer, TASK).probed(PROBE).correct, before.correct)


def test_the_majority_is_the_training_texts_and_measured_on_the_test_texts():
    train = LabelledTexts(("a", "b", "c"), None, (1, 1, 0))
    test = LabelledTexts(("a", "b", "c", "d"), None, (0, 0, 0, 1))
    task = TextTask("unlike", ("x", "y"), train, train, test)
    assert majority_correct(task).tolist() == [0, 0, 0, 1]
    record = majority_record(task, {"task": "unlike"})
    assert (record.quantity, record.value, record.n) == ("majority_accuracy", 0.25, 4)


@pytest.mark.parametrize("causal", [False, True])
def test_a_task_is_learnt_by_fine_tuning_and_the_model_is_left_as_it_was(causal):
    model, tokenizer = text_model(causal), text_tokenizer(causal)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found = fine_tune_text(model, tokenizer, TASK, FAST)
    assert found.best.estimate.value > 0.8
    assert len(found.best_epochs) == 2
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert found.best.records("m", {})[0].quantity == "fine_tuning_best_accuracy"
    inputs = fine_tuning_inputs(model, tokenizer, TASK, FAST)
    alone = fine_tune_text_seed(model, tokenizer, TASK.classes, inputs, FAST, seed=1)
    assert float(alone.best.double().mean()) == float(found.best.by_seed[1])


@pytest.mark.parametrize("causal", [False, True])
def test_a_classifier_reads_the_vector_that_it_should(causal):
    """The first token's in a masked model, the last one's in a causal model, whatever the padding."""
    model, tokenizer = text_model(causal), text_tokenizer(causal)
    classifier = classifier_of(model, ("x", "y"), seed=0, padding=2 if causal else 0).eval()
    inputs = text_inputs(model, tokenizer, TASK.test)[:9]
    with torch.no_grad():
        scores = classifier(**inputs.arguments(torch.device("cpu"))).logits
        for row, length in enumerate(inputs.lengths.tolist()):
            vectors = model.base_model(input_ids=inputs.ids[row : row + 1, :length].long()).last_hidden_state[
                0
            ]
            if causal:
                expected = classifier.score(vectors[-1])
            else:
                pooled = classifier.bert.pooler(vectors[None])
                expected = classifier.classifier(pooled)[0]
            torch.testing.assert_close(scores[row], expected)


def test_what_cannot_be_learnt_or_measured_is_refused():
    model, tokenizer = text_model(), text_tokenizer()
    alike = replace(TASK.train, labels=(1,) * 200)
    for task, sentence in [
        (replace(TASK, train=alike), "every training example is of the class 'early'"),
        (replace(TASK, validation=TASK.validation[[]]), "validation split has 0"),
        (replace(TASK, test=TASK.test[[0]]), "test split has 1"),
    ]:
        with pytest.raises(BadInput, match=sentence):
            fine_tune_text(model, tokenizer, task, FAST)
    with pytest.raises(BadInput, match="no more than the warm-up's 200"):
        fine_tune_text(model, tokenizer, TASK, FineTuningSettings(epochs=1))
