import json
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

from isoloss.errors import BadInput, IsolossError
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import random_hierarchy_grammar
from isoloss.languages.sentences import Sentences
from isoloss.languages.task import LabelledSentences, TaskSplits, task_splits
from isoloss.measurements.fine_tuning import RESULT_FILE, fine_tune
from isoloss.measurements.fine_tuning_run import (
    HEAD_FILE,
    FineTuningSettings,
    WordsClassifier,
    fine_tune_seed,
    load_classifier,
)
from isoloss.measurements.labelled_inputs import SentenceInputs
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.measurements.task_sentences import features_of_splits
from isoloss.models.tokenizer import word_tokenizer
from isoloss.models.transformers import PostLayerNormTransformer, PreLayerNormTransformer, Shape
from isoloss.objectives.soft_labels import SoftLabels
from isoloss.objectives.tokens import tokens_of_words, word_vectors
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import PretrainingSpecification
from isoloss.results.checkpoint import checkpoint_folders
from isoloss.results.estimate import sample_mean
from isoloss.seeds import derived_seed

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


def write(folder, architecture=PostLayerNormTransformer, dropout=0.1):
    architecture(Shape(16, 2, 1, 32), dropout).build(WORDS, LENGTH, seed=0).save_pretrained(folder)
    word_tokenizer([f"w{number}" for number in range(WORDS)], LENGTH).save_pretrained(folder)
    return folder


@pytest.fixture
def checkpoint(tmp_path):
    return write(tmp_path / "model")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A checkpoint, and what its fine-tuning as in SHORT left and found; tests only read them."""
    folder = tmp_path_factory.mktemp("tuned")
    model = write(folder / "model")
    return model, folder / "out", fine_tune(model, SPLITS, CLASSES, folder / "out", SHORT)


@pytest.mark.parametrize("architecture", [PostLayerNormTransformer, PreLayerNormTransformer])
def test_a_task_is_learnt_and_the_checkpoints_are_ordinary_ones(architecture, tmp_path):
    found = fine_tune(write(tmp_path / "model", architecture), SPLITS, CLASSES, tmp_path / "out", FAST)
    assert found.best.estimate.value > 0.9
    accuracy, deviation = found.best.records("step-4", {"task": "first"})
    last, _ = found.last.records("step-4", {"task": "first"})
    assert (accuracy.quantity, accuracy.n, accuracy.unit) == ("fine_tuning_best_accuracy", 80, "fraction")
    assert (deviation.quantity, deviation.n) == ("fine_tuning_best_deviation_over_seeds", 2)
    assert last.quantity == "fine_tuning_last_accuracy"
    assert (accuracy.checkpoint, accuracy.settings) == ("step-4", {"task": "first"})
    for seed, folder in enumerate(found.checkpoints):
        model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        assert model.config.id2label == {0: "low", 1: "high"}
        tokens = tokens_of_words(SPLITS.test.sentences.ids)
        with torch.no_grad():
            said = model(input_ids=tokens, attention_mask=tokens != 0).logits.argmax(1)
        right = float((said == SPLITS.test.labels).double().mean())
        assert right == pytest.approx(float(found.best.by_seed[seed]))
        assert len(AutoTokenizer.from_pretrained(folder)) == WORDS + 3
        result = json.loads((folder / RESULT_FILE).read_text())
        validation = result["validation"]
        assert len(validation) == FAST.epochs
        assert found.best_epochs[seed] == validation.index(max(validation)) + 1


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
def test_reading_every_word_fine_tuning_is_at_least_a_frozen_probe(pretrained, tmp_path):
    """It starts from the same vectors, and may change them."""
    checkpoint, splits, classes = pretrained
    every_word = FineTuningSettings(
        seeds=(0, 1), epochs=20, learning_rate=3e-3, warm_up_steps=20, every_word=True
    )
    long_trained = ProbeSettings(learning_rate=1e-2, batch_size=32)
    probe = features_of_splits(AutoModelForMaskedLM.from_pretrained(checkpoint), splits).probed(long_trained)
    tuned = fine_tune(checkpoint, splits, classes, tmp_path / "words", every_word)
    gain = sample_mean(tuned.best.correct - probe.correct)
    assert gain.value > -2 * gain.standard_error
    assert probe.estimate.value > 0.7


def test_a_head_that_reads_every_word_is_kept_beside_the_model(checkpoint, tmp_path):
    tuned = fine_tune(checkpoint, SPLITS, CLASSES, tmp_path / "words", replace(SHORT, every_word=True))
    again = AutoModel.from_pretrained(tuned.checkpoints[0]).eval()
    head = load_file(tuned.checkpoints[0] / HEAD_FILE)
    with torch.no_grad():
        vectors = word_vectors(again, SPLITS.test.sentences.ids)
    said = (vectors @ head["weight"].T + head["bias"]).argmax(1)
    assert float((said == SPLITS.test.labels).double().mean()) == pytest.approx(float(tuned.best.by_seed[0]))


def test_sentences_shorter_than_the_head_are_padded_with_zeros(tmp_path):
    model = load_classifier(write(tmp_path / "model", dropout=0.0), CLASSES, seed=0)
    classifier = WordsClassifier(model.base_model.eval(), LENGTH, 2, seed=1)
    short = tokens_of_words(torch.tensor([[3, 1], [2, 4]]))
    padded = tokens_of_words(torch.tensor([[3, 1, -1, -1], [2, 4, -1, -1]]))
    with torch.no_grad():
        torch.testing.assert_close(classifier(short).logits, classifier(padded, padded != 0).logits)
        assert classifier(short).logits.std() > 0
    assert torch.equal(
        WordsClassifier(model.base_model, LENGTH, 2, seed=1).head.weight, classifier.head.weight
    )


def test_training_is_that_of_a_plain_loop(tmp_path):
    """Without dropout: AdamW's update and gradient clipping written out, one example's gradient at a time."""
    checkpoint = write(tmp_path / "model", dropout=0.0)
    settings = FineTuningSettings(
        seeds=(0, 1), epochs=1, learning_rate=1e-2, warm_up_steps=2, batch_size=50, maximum_norm=1e-6
    )
    model = load_classifier(checkpoint, CLASSES, seed=3)
    plain = load_classifier(checkpoint, CLASSES, seed=3)
    found = fine_tune_seed(model, SentenceInputs.of(SPLITS), settings, seed=7)
    generator = torch.Generator().manual_seed(derived_seed(7, "fine-tuning order"))
    order = torch.randperm(200, generator=generator)
    parameters = list(plain.parameters())
    first = [torch.zeros_like(parameter) for parameter in parameters]
    second = [torch.zeros_like(parameter) for parameter in parameters]
    tokens = tokens_of_words(SPLITS.train.sentences.ids)
    for step, rate in enumerate([0.5e-2, 1e-2, 0.5e-2, 0.0], start=1):
        total = [torch.zeros_like(parameter) for parameter in parameters]
        for row in order[50 * step - 50 : 50 * step].tolist():
            words = tokens[row : row + 1, : 1 + int(SPLITS.train.sentences.lengths[row])]
            scores = plain(input_ids=words).logits
            loss = -scores.log_softmax(1)[0, SPLITS.train.labels[row]] / 50
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


def test_a_seed_gives_alone_what_it_gives_among_others_and_the_callers_randomness_is_kept(tuned, tmp_path):
    checkpoint, first, _ = tuned
    torch.manual_seed(11)
    before = torch.get_rng_state()
    fine_tune(checkpoint, SPLITS, CLASSES, tmp_path, replace(SHORT, seeds=(1, 2)))
    assert torch.equal(torch.get_rng_state(), before)
    files = [run / "seed-1" / "model.safetensors" for run in (first, tmp_path)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[0].read_bytes() != (first / "seed-0" / "model.safetensors").read_bytes()


class Killed(BaseException):
    pass


def test_finished_seeds_are_kept(tuned, tmp_path):
    checkpoint, _, whole = tuned
    told = []

    def kill(task, completed, total, message=""):
        told.append(completed / total)
        if completed > 1:
            raise Killed

    with pytest.raises(Killed):
        fine_tune(checkpoint, SPLITS, CLASSES, tmp_path / "out", SHORT, progress=kill)
    assert told == [0.25, 0.5, 0.5, 0.75]
    kept = tmp_path / "out" / "seed-0" / "model.safetensors"
    written = kept.stat().st_mtime_ns
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"seed-0", ".lock"}
    (tmp_path / "out" / ".seed-1.0.part").mkdir()
    resumed = fine_tune(checkpoint, SPLITS, CLASSES, tmp_path / "out", SHORT)
    assert kept.stat().st_mtime_ns == written
    assert not list((tmp_path / "out").glob("*.part"))
    assert torch.equal(resumed.best.correct, whole.best.correct)
    assert torch.equal(resumed.last.by_seed, whole.last.by_seed)


def changed(split, **parts):
    return replace(SPLITS, **{split: replace(getattr(SPLITS, split), **parts)})


@pytest.mark.parametrize(
    ("splits", "classes", "sentence"),
    [
        (SPLITS, ("one",), "at least two classes, not 1"),
        (TaskSplits(SPLITS.train[:0], SPLITS.validation, SPLITS.test), CLASSES, "train split has 0"),
        (TaskSplits(SPLITS.train, SPLITS.validation[:0], SPLITS.test), CLASSES, "validation split has 0"),
        (TaskSplits(SPLITS.train, SPLITS.validation, SPLITS.test[:1]), CLASSES, "test split has 1"),
        (changed("train", labels=torch.ones(200).long()), CLASSES, "of the class 'high'"),
        (changed("test", labels=SPLITS.test.labels + 1), CLASSES, "lie between 1 and 2"),
        (
            changed("test", sentences=Sentences(torch.full((80, 4), 9), torch.full((80,), 4))),
            CLASSES,
            "word number 9, but the model knows 5",
        ),
        (
            changed("validation", sentences=Sentences(torch.zeros(60, 6).long(), torch.full((60,), 6))),
            CLASSES,
            "sentences of 6 words, but the model reads 4",
        ),
    ],
)
def test_what_cannot_be_learnt_or_measured_is_refused(splits, classes, sentence, checkpoint, tmp_path):
    with pytest.raises(BadInput, match=sentence):
        fine_tune(checkpoint, splits, classes, tmp_path / "out", SHORT)
    assert not (tmp_path / "out").exists()


def test_a_warm_up_longer_than_the_run_is_refused(tmp_path):
    with pytest.raises(BadInput, match="70 steps, no more than the warm-up's 200"):
        fine_tune(tmp_path, SPLITS, CLASSES, tmp_path / "out")


def test_another_runs_folder_and_what_holds_no_model_are_refused(tuned, tmp_path):
    checkpoint, finished, _ = tuned
    shutil.copytree(finished, tmp_path / "out")
    slower = replace(SHORT, learning_rate=1e-3)
    with pytest.raises(BadInput, match=r"settings\.learning_rate is 0\.003, not 0\.001"):
        fine_tune(checkpoint, SPLITS, CLASSES, tmp_path / "out", slower)
    fewer = TaskSplits(SPLITS.train[:150], SPLITS.validation, SPLITS.test)
    with pytest.raises(BadInput, match="its examples is"):
        fine_tune(checkpoint, fewer, CLASSES, tmp_path / "out", SHORT)
    (tmp_path / "out" / "seed-1" / RESULT_FILE).unlink()
    with pytest.raises(BadInput, match="no finished fine-tuning"):
        fine_tune(checkpoint, SPLITS, CLASSES, tmp_path / "out", SHORT)
    with pytest.raises(BadInput, match=r"no config\.json"):
        fine_tune(tmp_path / "none", SPLITS, CLASSES, tmp_path / "other", SHORT)


def test_an_incomplete_backbone_and_what_transformers_cannot_read_are_refused(checkpoint):
    weights = load_file(checkpoint / "model.safetensors")
    del weights["bert.encoder.layer.0.output.dense.weight"]
    save_file(weights, checkpoint / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BadInput, match=r"lacks bert\.encoder"):
        load_classifier(checkpoint, CLASSES, seed=0)
    (checkpoint / "config.json").write_text('{"model_type": "bort"}')
    with pytest.raises(BadInput, match=r"no model to fine-tune can be read from .*model: .*bort"):
        load_classifier(checkpoint, CLASSES, seed=0)


def test_a_loss_that_is_no_number_is_said(checkpoint, tmp_path):
    settings = replace(SHORT, learning_rate=1e30)
    with pytest.raises(IsolossError, match="no longer a number in epoch 1 of fine-tuning with seed 0"):
        fine_tune(checkpoint, SPLITS, CLASSES, tmp_path / "out", settings)


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
