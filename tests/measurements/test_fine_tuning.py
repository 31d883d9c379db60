from dataclasses import replace

import pytest
import torch
from torch import nn
from transformers import AutoModelForMaskedLM

from isoloss.errors import BadInput, IsolossError
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import random_hierarchy_grammar
from isoloss.languages.sentences import Sentences
from isoloss.languages.task import LabelledSentences, TaskSplits, task_splits
from isoloss.measurements import fine_tuning
from isoloss.measurements.fine_tuning import (
    FineTuned,
    FineTuningSettings,
    WordsClassifier,
    classifier_of,
    fine_tune,
    fine_tune_once,
    fine_tune_seed,
)
from isoloss.measurements.labelled_inputs import SentenceInputs, check_fits
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.measurements.task_sentences import features_of_splits
from isoloss.models.transformers import PostLayerNormTransformer, PreLayerNormTransformer, Shape
from isoloss.objectives.soft_labels import SoftLabels
from isoloss.objectives.tokens import tokens_of_words
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import PretrainingSpecification
from isoloss.results.checkpoint import checkpoint_folders
from isoloss.results.estimate import sample_mean
from isoloss.seeds import derived_seed
from thorough_cases import others_thorough

WORDS, LENGTH = 5, 4
CLASSES = ("low", "high")
FAST = FineTuningSettings(
    seeds=(0, 1), epochs=6, learning_rate=3e-3, warm_up_steps=5, batch_size=16, weight_decay=0.1
)
SHORT = FineTuningSettings(seeds=(0, 1), epochs=2, learning_rate=3e-3, warm_up_steps=1, batch_size=16)


def examples(n, seed):
    """Sentences of 2 to 4 words; the label says whether the first word is 2 or more."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, LENGTH + 1, (n,), generator=generator)
    ids = torch.randint(WORDS, (n, LENGTH), generator=generator)
    ids = ids.masked_fill(torch.arange(LENGTH) >= lengths[:, None], -1)
    labels = (ids[:, 0] >= 2).long()
    return LabelledSentences(Sentences(ids, lengths), labels, nn.functional.one_hot(labels, 2).double())


SPLITS = TaskSplits(examples(200, 1), examples(60, 2), examples(80, 3))
INPUTS = SentenceInputs.of(SPLITS, CLASSES)


def changed(split, **parts):
    return replace(SPLITS, **{split: replace(getattr(SPLITS, split), **parts)})


def built(architecture=PostLayerNormTransformer, dropout=0.1):
    return architecture(Shape(16, 2, 1, 32), dropout).build(WORDS, LENGTH, seed=0)


@pytest.mark.parametrize(("every_word", "epochs"), others_thorough([(True, 3), (False, 6)]))
@pytest.mark.parametrize("architecture", others_thorough([PostLayerNormTransformer, PreLayerNormTransformer]))
def test_a_task_is_learnt_and_the_model_is_left_as_it_was(architecture, every_word, epochs):
    model = built(architecture)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    best, of_last = fine_tune(model, INPUTS, replace(FAST, every_word=every_word, epochs=epochs))
    assert best.estimate.value > 0.9
    accuracy, deviation = best.records("step-4", {"task": "first"})
    last, _ = of_last.records("step-4", {"task": "first"})
    assert (accuracy.quantity, accuracy.n, accuracy.unit) == ("fine_tuning_best_accuracy", 80, "fraction")
    assert (deviation.quantity, deviation.n) == ("fine_tuning_best_deviation_over_seeds", 2)
    assert last.quantity == "fine_tuning_last_accuracy"
    assert (accuracy.checkpoint, accuracy.settings) == ("step-4", {"task": "first"})
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A checkpoint that has learnt a language of four words a sentence, whose roots no single word tells."""
    sizes = {"symbols_per_level": 3, "words_per_preterminal": 2, "levels": 2, "rules_per_symbol": 3}
    language = pcfg(random_hierarchy_grammar(**sizes, roots=3, concentration=4.0, seed=13))
    architecture = PreLayerNormTransformer(Shape(32, 2, 2, 128), dropout=0.0)
    rule, length = AdamW(3e-3, warm_up_steps=50), {"steps": 600, "checkpoint_steps": (600,)}
    specification = PretrainingSpecification(
        architecture, rule, language.digest, batch_size=64, seed=0, objective=SoftLabels(), **length
    )
    folder = tmp_path_factory.mktemp("pretrained")
    pretrain(specification, language, folder)
    task = language.tasks()[0]
    return checkpoint_folders(folder)[-1], task_splits(task, 300, 300, 1000, seed=0), task.classes


@pytest.mark.slow
def test_reading_every_word_fine_tuning_is_at_least_a_frozen_probe(pretrained):
    """It starts from the same vectors, and may change them."""
    checkpoint, splits, classes = pretrained
    every_word = FineTuningSettings(
        seeds=(0, 1), epochs=20, learning_rate=3e-3, warm_up_steps=20, every_word=True
    )
    long_trained = ProbeSettings(learning_rate=1e-2, batch_size=32)
    model = AutoModelForMaskedLM.from_pretrained(checkpoint)
    probe = features_of_splits(model, splits).probed(long_trained)
    tuned, _ = fine_tune(model, SentenceInputs.of(splits, classes), every_word)
    gain = sample_mean(tuned.correct - probe.correct)
    assert gain.value > -2 * gain.standard_error
    assert probe.estimate.value > 0.7


def test_a_head_reads_every_word_of_the_longest_sentence_of_any_split(monkeypatch):
    read = []
    right = torch.tensor([True])

    def untrained(classifier, *_):
        read.append(classifier.head.in_features // 16)
        return FineTuned([1.0], 1, right, right)

    monkeypatch.setattr(fine_tuning, "fine_tune_seed", untrained)
    longer = Sentences(torch.zeros(60, 6).long(), torch.full((60,), 6))
    splits = SentenceInputs.of(changed("validation", sentences=longer), CLASSES)
    fine_tune_once(built(), splits, replace(SHORT, every_word=True), seed=0)
    assert read == [6]


def test_sentences_shorter_than_the_head_are_padded_with_zeros():
    model = built(dropout=0.0)
    classifier = WordsClassifier(model, LENGTH, 2, seed=1).eval()
    short = tokens_of_words(torch.tensor([[3, 1], [2, 4]]))
    padded = tokens_of_words(torch.tensor([[3, 1, -1, -1], [2, 4, -1, -1]]))
    with torch.no_grad():
        torch.testing.assert_close(classifier(short).logits, classifier(padded, padded != 0).logits)
        assert classifier(short).logits.std() > 0
    assert torch.equal(WordsClassifier(model, LENGTH, 2, seed=1).head.weight, classifier.head.weight)


def test_training_is_that_of_a_plain_loop():
    """Without dropout: AdamW's update and gradient clipping written out, one example's gradient at a time."""
    settings = FineTuningSettings(
        seeds=(0, 1), epochs=1, learning_rate=1e-2, warm_up_steps=2, batch_size=10, maximum_norm=1e-6
    )
    train = SPLITS.train[:40]
    model, plain = (classifier_of(built(dropout=0.0), CLASSES, seed=3, padding=0) for _ in range(2))
    plain.eval()
    found = fine_tune_seed(model, SentenceInputs.of(replace(SPLITS, train=train), CLASSES), settings, seed=7)
    generator = torch.Generator().manual_seed(derived_seed(7, "fine-tuning order"))
    order = torch.randperm(40, generator=generator)
    parameters = list(plain.parameters())
    first = [torch.zeros_like(parameter) for parameter in parameters]
    second = [torch.zeros_like(parameter) for parameter in parameters]
    tokens = tokens_of_words(train.sentences.ids)
    for step, rate in enumerate([0.5e-2, 1e-2, 0.5e-2, 0.0], start=1):
        total = [torch.zeros_like(parameter) for parameter in parameters]
        for row in order[10 * step - 10 : 10 * step].tolist():
            words = tokens[row : row + 1, : 1 + int(train.sentences.lengths[row])]
            scores = plain(input_ids=words).logits
            loss = -scores.log_softmax(1)[0, train.labels[row]] / 10
            for sum_, gradient in zip(total, torch.autograd.grad(loss, parameters), strict=True):
                sum_ += gradient
        norm = float(sum(gradient.square().sum() for gradient in total)) ** 0.5
        for place, parameter in enumerate(parameters):
            gradient = total[place] * min(1.0, 1e-6 / norm)  # about AdamW's ε, so that its size matters
            first[place] = 0.9 * first[place] + 0.1 * gradient
            second[place] = 0.999 * second[place] + 0.001 * gradient.square()
            direction = first[place] / (1 - 0.9**step)
            direction = direction / ((second[place] / (1 - 0.999**step)).sqrt() + 1e-8)
            decay = 0.01 if parameter.ndim > 1 else 0.0
            parameter.data = parameter.data * (1 - rate * decay) - rate * direction
    with torch.no_grad():
        mask = tokens_of_words(SPLITS.validation.sentences.ids)
        expected = plain(input_ids=mask, attention_mask=mask != 0).logits
        scores = model.eval()(input_ids=mask, attention_mask=mask != 0).logits
    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-4)
    right = float((expected.argmax(1) == SPLITS.validation.labels).double().mean())
    assert found.validation == [pytest.approx(right)]


def test_a_seed_gives_alone_what_it_gives_among_others_and_the_callers_randomness_is_kept():
    model, told = built(), []
    settings = replace(SHORT, learning_rate=1e-3, every_word=True)
    torch.manual_seed(11)
    before = torch.get_rng_state()
    best, last = fine_tune(model, INPUTS, settings, lambda _, done, of, *__: told.append(done / of))
    assert torch.equal(torch.get_rng_state(), before)
    assert told == [0.25, 0.5, 0.5, 0.75, 1.0, 1.0]
    alone, other = (fine_tune_once(model, INPUTS, settings, seed) for seed in (1, 2))
    assert float(alone.last.double().mean()) == float(last.by_seed[1])
    assert float(alone.best.double().mean()) == float(best.by_seed[1])
    assert not torch.equal(alone.last, other.last)


@pytest.mark.parametrize(
    ("splits", "classes", "sentence"),
    [
        (SPLITS, ("one",), "at least two classes, not 1"),
        (TaskSplits(SPLITS.train[:0], SPLITS.validation, SPLITS.test), CLASSES, "train split has 0"),
        (TaskSplits(SPLITS.train, SPLITS.validation[:0], SPLITS.test), CLASSES, "validation split has 0"),
        (TaskSplits(SPLITS.train, SPLITS.validation, SPLITS.test[:1]), CLASSES, "test split has 1"),
        (changed("train", labels=torch.ones(200).long()), CLASSES, "of the class 'high'"),
        (changed("test", labels=SPLITS.test.labels + 1), CLASSES, "lie between 1 and 2"),
    ],
)
def test_what_cannot_be_learnt_or_measured_is_refused(splits, classes, sentence):
    with pytest.raises(BadInput, match=sentence):
        fine_tune(built(), SentenceInputs.of(splits, classes), SHORT)


@pytest.mark.parametrize(
    ("splits", "sentence"),
    [
        (
            changed("test", sentences=Sentences(torch.full((80, 4), 9), torch.full((80,), 4))),
            "word number 9, but the model knows 5",
        ),
        (
            changed("validation", sentences=Sentences(torch.zeros(60, 6).long(), torch.full((60,), 6))),
            "sentences of 6 words, but the model reads 4",
        ),
    ],
)
def test_sentences_that_the_model_was_not_built_for_are_refused(splits, sentence):
    with pytest.raises(BadInput, match=sentence):
        check_fits(splits, built())


def test_a_warm_up_longer_than_the_run_is_refused():
    with pytest.raises(BadInput, match="70 steps, no more than the warm-up's 200"):
        fine_tune(built(), INPUTS)


def test_a_loss_that_is_no_number_is_said():
    settings = replace(SHORT, learning_rate=1e30)
    with pytest.raises(IsolossError, match="no longer a number in epoch 1 of fine-tuning with seed 0"):
        fine_tune(built(), INPUTS, settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"seeds": (1,)},
        {"seeds": (1, 1)},
        {"epochs": 0},
        {"batch_size": 0},
        {"warm_up_steps": -1},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"maximum_norm": 0.0},
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings):
    with pytest.raises(BadInput):
        FineTuningSettings(**settings)
