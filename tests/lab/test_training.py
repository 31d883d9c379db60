"""What the laboratory trains is what the one training loop trains; averages and refusals."""

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_networks import Layered, bert, same_weights
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from isoloss import lab
from isoloss.errors import BadInput, IsolossError
from isoloss.lab.models import refuse_no_language
from isoloss.lab.words import in_one_sentence
from isoloss.languages.pcfg import PCFG
from isoloss.measurements.exact_loss import EvaluationSet, exact_loss
from isoloss.models.loading import load_masked_language_model
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.specification import PretrainingSpecification
from runtime_types import unchecked


def test_training_is_that_of_the_one_loop(run: lab.Run, language: PCFG, tmp_path: Path) -> None:
    specification = PretrainingSpecification(
        PreLayerNormTransformer(laptop_shape(16), dropout=0.0),
        AdamW(3e-3, warm_up_steps=2),
        language.digest,
        steps=40,
        batch_size=64,
        seed=1,
        checkpoint_steps=(1, 2, 4, 8, 16, 32, 40),
        averaging_horizon=1,
    )
    pretrain(specification, language, tmp_path)
    assert run.steps == specification.checkpoint_steps
    assert same_weights(run.last.module, load_masked_language_model(tmp_path / "steps" / "000040"))


@pytest.mark.thorough
def test_whole_numbers_of_numpy_are_those_of_python(language: PCFG) -> None:
    one = np.int64(1)
    steps, batch = np.array([2, 3]), np.uint8(8)
    run = lab.train(language, np.int32(16), steps=steps[-1], batch=batch, at=steps, seed=one)
    same = lab.train(language, 16, steps=3, batch=8, at=[2, 3], seed=1)
    assert run.steps == same.steps == (2, 3)
    assert same_weights(run.last.module, same.last.module)
    polished = lab.polish(run.last, to=9.0, steps=steps[0], seed=steps[0])
    assert polished.seeds == (1, 2)
    assert lab.trace(run, sentences=batch, seed=one)[0].estimate.n == 8
    assert lab.loss(run, sentences=batch, seed=one)[0].estimate.n == 8
    assert lab.probe(run, "prefix-8", examples=np.int16(50), seed=one)[0].estimate.n == 50
    assert list(lab.sentences(language, steps[1], seed=one)) == list(lab.sentences(language, 3, seed=1))


@pytest.mark.parametrize(
    "module",
    [
        Layered,
        *(pytest.param(each, marks=pytest.mark.thorough) for each in (bert, lambda: bert(vocab_size=30))),
    ],
)
def test_a_model_is_trained_on_as_a_copy(module: Callable[[], nn.Module], language: PCFG) -> None:
    given = module()
    before = [weight.clone() for weight in given.parameters()]
    run = lab.train(language, given, steps=30, seed=1, progress=lab.silent)
    assert all(a.equal(b) for a, b in zip(before, given.parameters(), strict=True))
    first, last = lab.loss([run.models[0], run.last], sentences=50, seed=0, progress=lab.silent)
    assert last.estimate.value < first.estimate.value - 0.05


def test_frozen_weights_stay_unless_all_are(language: PCFG, tmp_path: Path) -> None:
    given = Layered()
    given.words.requires_grad_(False)
    settings = {"steps": 2, "seed": 1, "progress": lab.silent, "folder": tmp_path / "kept"}
    last = lab.train(language, given, **settings).last.module.module
    assert last.words.weight.equal(given.words.weight)
    assert not last.words.weight.requires_grad
    assert not last.head.weight.equal(given.head.weight)
    whole = given.requires_grad_(False)
    with pytest.raises(BadInput, match=r"holds another run: its architecture\.frozen is"):
        lab.train(language, whole, **settings)
    trained = lab.train(language, whole, steps=2, seed=1, progress=lab.silent).last.module.module
    assert not trained.words.weight.equal(given.words.weight)


def test_a_causal_model_predicts_the_next_word(language: PCFG) -> None:
    config = GPT2Config(
        vocab_size=9, n_embd=16, n_layer=1, n_head=2, n_positions=9, bos_token_id=1, eos_token_id=1
    )
    run = lab.train(language, GPT2LMHeadModel(config), steps=4, seed=1, progress=lab.silent)
    found = lab.loss(run.last, sentences=20, seed=0, progress=lab.silent)
    assert found.beside[0][1].value == pytest.approx(1.3, abs=0.3)  # the end of a sentence is certain
    assert run.last.objective.quantity == "next_word"


def test_flattening_begins_at_the_model_and_goes_on_with_another_seed(run: lab.Run) -> None:
    flat = lab.flatten(run.last, steps=4, seed=2, progress=lab.silent)
    assert flat.steps == (0, 1, 2, 4)
    assert flat.models[0].module is run.last.module
    assert flat.last.seeds == (1, 2)
    assert not same_weights(flat.last.module, run.last.module)


def test_polishing_ends_at_the_divergence_asked_for(run: lab.Run, language: PCFG) -> None:
    evaluation = EvaluationSet.draw(language, 1000, 5)

    def divergence(model: lab.Model) -> float:
        found = exact_loss(model.module, model.objective, evaluation).kl
        return float(found.mean())

    before = divergence(run.last)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it says if it has not arrived
        polished = lab.polish(run.last, to=0.75 * before, steps=200, batch=64, seed=4, progress=lab.silent)
    assert divergence(polished) == pytest.approx(0.75 * before, rel=0.1)
    assert polished.step is None
    assert polished.seeds == (1, 4)


def test_a_model_that_is_not_polished_says_so(run: lab.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isoloss.lab.training.HELD_OUT", 300)
    begins = lab.loss(run.last, sentences=300, seed=4, progress=lab.silent).kl
    nearly = 0.8 * begins[0].estimate.value
    with pytest.warns(UserWarning, match=f"nats of KL, not {nearly:.2g}, in 3 steps; give more"):
        lab.polish(run.last, to=nearly, steps=3, seed=4, progress=lab.silent)
    with pytest.warns(UserWarning, match="nats of KL, not 1e-06, in 3 steps; give more"):
        lab.polish(run.last, to=1e-6, steps=3, seed=4, progress=lab.silent)
    with pytest.warns(UserWarning, match="nats of KL to begin with, which is below 9; polish to less"):
        lab.polish(run.last, to=9.0, steps=12, seed=4, progress=lab.silent)


def test_a_runs_models_are_taken_by_their_places(run: lab.Run) -> None:
    assert run[-1] is run.last
    assert run[-3:] == run.models[-3:]
    assert lab.average(run[-2:]).weights == run.last.weights


def test_an_average_is_the_mean_of_the_weights(run: lab.Run) -> None:
    some = run.models[-3:]
    mean = lab.average(some)
    each = [list(model.module.parameters()) for model in some]
    for weight, *of_models in zip(mean.module.parameters(), *each, strict=True):
        assert torch.allclose(weight, torch.stack(of_models).mean(0), atol=1e-6)
    assert mean.seeds == (1,)


def test_running_means_are_averaged_too() -> None:
    norms = [nn.BatchNorm1d(2), nn.BatchNorm1d(2)]
    for value, norm in enumerate(norms, start=1):
        norm.running_mean = torch.full((2,), float(value))
        norm.num_batches_tracked += value
    mean = lab.average([lab.model(norm) for norm in norms]).module.state_dict()
    assert mean["module.running_mean"].tolist() == [1.5, 1.5]
    assert mean["module.num_batches_tracked"] == 1


def test_checkpoints_on_disk_are_averaged(run: lab.Run, tmp_path: Path) -> None:
    folders = [lab.save(model, tmp_path / str(model.step)) for model in run.models[-2:]]
    assert same_weights(lab.average(folders).module, lab.average(run.models[-2:]).module)


def test_an_average_knows_the_seeds_of_all_its_models(run: lab.Run, language: PCFG) -> None:
    """The sentences of any of them would come again."""
    mean = lab.average([replace(run[-2], seeds=(3, 1)), replace(run.last, seeds=(1, 2))])
    assert mean.seeds == (3, 1, 2)
    for seed in mean.seeds:
        with pytest.raises(BadInput, match=f"was trained with seed {seed} on the sentences that would be"):
            lab.train(language, mean, steps=1, seed=seed, progress=lab.silent)


def test_a_run_that_diverges_says_what_to_change_and_names_a_folder_only_if_there_is_one(
    language: PCFG, tmp_path: Path
) -> None:
    rule = AdamW(1e6, warm_up_steps=1)
    with pytest.raises(IsolossError, match=r"step 3 of the run with seed 6; lower the learning rate$"):
        lab.train(language, 16, steps=30, seed=6, rule=rule, progress=lab.silent)
    with pytest.raises(IsolossError, match=r"train in another folder$"):
        lab.train(language, 16, steps=30, seed=6, rule=rule, folder=tmp_path / "run", progress=lab.silent)


def test_a_mistake_in_ones_own_rule_is_told_with_its_line(language: PCFG, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("class Mine:\n    def build(self, training):\n        return training.modle\n")
    given: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), given)
    with pytest.raises(BadInput, match=rf"training failed in {file}, line 3, in build: .*modle.*mend"):
        lab.train(language, 16, steps=2, seed=1, rule=given["Mine"](), progress=lab.silent)


def test_memory_that_ran_out_is_no_mistake_of_ones_own() -> None:
    told = "training failed: out of memory; give fewer sentences or a smaller batch, or a smaller model"
    with pytest.raises(BadInput, match=told), in_one_sentence("training"):
        raise torch.OutOfMemoryError("out of memory")


def refusals(language: PCFG, run: lab.Run) -> dict[str, Callable[[], object]]:
    """What a user may get wrong, by the beginning of what is said."""
    train, last = lab.train, run.last
    return {
        "a run needs at least one step": lambda: train(language, 16, steps=0, seed=1),
        "a laptop shape's width must be": lambda: train(language, 17, steps=2, seed=1),
        "train, step 40 was trained with seed 1": lambda: train(language, last, steps=2, seed=1),
        r"Linear cannot read token numbers 0 to 8": lambda: train(language, nn.Linear(3, 3), steps=2, seed=2),
        r"Embedding cannot read token numbers": lambda: train(language, nn.Embedding(5, 9), steps=2, seed=2),
        "Embedding gives scores of 7 tokens": lambda: train(language, nn.Embedding(9, 7), steps=2, seed=2),
        "BertForMaskedLM has 5 tokens": lambda: train(language, bert(vocab_size=5), steps=2, seed=2),
        "BertForMaskedLM reads 8 tokens at most": lambda: train(
            language, bert(max_position_embeddings=8), steps=2, seed=2
        ),
        "a seed is a whole number from 0": lambda: train(language, 16, steps=3, seed=-1),
        "a seed is a whole number": lambda: lab.trace(last, seed=2**32),
        "'x' is no language; give one": lambda: refuse_no_language("x"),
        "nobody knows the language of Layered": lambda: lab.flatten(Layered(), steps=3, seed=1),
        "the divergence to polish down to": lambda: lab.polish(last, to=-1.0, steps=3, seed=2),
        "an average takes at least two": lambda: lab.average([last]),
        "train, step 40 and BertForMaskedLM have weights of different": lambda: lab.average([last, bert()]),
        "train has no model at step 3; it has 1, 2, 4": lambda: run.at(3),
        "there is no model in the list": lambda: lab.loss([], seed=1),
        "there is no folder nowhere/at/all": lambda: lab.loss("nowhere/at/all", seed=1),
        "the models were trained on no known languages": lambda: lab.loss(bert(), seed=1),
        "BertForMaskedLM has no tokenizer": lambda: lab.loss(bert(), on=["a b", "c d"], seed=1),
        "a text: a file, or a list of at least two sentences, each a string, not ": lambda: lab.loss(
            last, on=["w1 w2"], seed=1
        ),
        "the language has no task 'prefx'": lambda: lab.probe(last, "prefx", seed=1),
        "1 sentences have no error bar": lambda: lab.trace(last, sentences=1, seed=1),
        "the number of sentences must be at least 1, not 0": lambda: lab.sentences(language, 0, seed=1),
        "there is nothing to plot": lambda: lab.plot(),
    }


def test_every_mistake_is_said_in_one_sentence(language: PCFG, run: lab.Run) -> None:
    for said, doing in refusals(language, run).items():
        with pytest.raises(BadInput, match=said) as refusal:
            doing()
        assert "\n" not in str(refusal.value)
        assert math.isclose(str(refusal.value).count("; "), 1, abs_tol=1), refusal.value


def mistaken_types(language: PCFG, run: lab.Run) -> dict[str, Callable[[], object]]:
    train = partial(lab.train, language)
    return {
        "the number of sentences is a whole number, not '3'": lambda: lab.sentences(language, "3", seed=1),
        "'my.pcfg' is no language": lambda: lab.sentences("my.pcfg", 3, seed=1),
        "the number of steps is a whole number, not 2.5": lambda: train(16, steps=2.5, seed=1),
        "sentences in a batch is a whole number, not '8'": lambda: train(16, steps=2, batch="8", seed=1),
        "to keep a model at is a whole number, not 1.5": lambda: train(16, steps=2, at=[1, 1.5], seed=1),
        "the steps to keep models at are a list": lambda: train(16, steps=2, at=2, seed=1),
        "the width is a whole number, not True": lambda: train(True, steps=2, seed=1),
        "the number of sentences is a whole number, not 50.0": lambda: lab.trace(run, sentences=50.0, seed=1),
        "examples is a whole number, not '9'": lambda: lab.probe(run, "prefix-8", examples="9", seed=1),
        "'adam' is no update rule": lambda: train(16, steps=2, rule="adam", seed=1),
        ".*AdamW'> is no update rule": lambda: train(16, steps=2, rule=AdamW, seed=1),
        "a folder is named by its path, .*, not 5": lambda: train(16, steps=2, seed=1, folder=5),
        "a folder is named by its path, .*, not ''": lambda: train(16, steps=2, seed=1, folder=""),
        "the rate is a number, not '0.2'": lambda: lab.flatten(run.last, steps=2, rate="0.2", seed=2),
        "the rate is a number, not True": lambda: lab.polish(run.last, to=1, steps=2, rate=True, seed=2),
        "the divergence to polish to is a number, not 'a'": lambda: lab.polish(
            run.last, to="a", steps=2, seed=2
        ),
        "models are measured on a language, or on a text: .*, not 5": lambda: lab.loss(run, on=5, seed=2),
        "'English' is no language": lambda: lab.average(run, language="English"),
        r"\[loss \(nats\), 5 sentences, seed 2 cannot be plotted": lambda: lab.plot(
            [lab.loss(run, sentences=5, seed=2)]
        ),
        "a task has a name, such as 'prefix-8', not 8": lambda: lab.probe(run, 8, seed=1),
        "the run train cannot be plotted": lambda: lab.plot(run),
        "train is a run of 7 models": lambda: lab.flatten(run, steps=3, seed=2),
        "'x' is no language; give one.*": lambda: lab.model(run.last, language="x"),
        "None is no model; give one of a run, .*": lambda: lab.flatten(None, steps=3, seed=1),
        "3 cannot be plotted": lambda: lab.plot(lab.loss(run, sentences=5, seed=2), against=3),
    }


def test_what_is_of_another_type_is_refused_in_a_sentence(language: PCFG, run: lab.Run) -> None:
    with unchecked():
        for said, doing in mistaken_types(language, run).items():
            with pytest.raises(BadInput, match=f"{said}(;|$)"):
                doing()


def test_words_are_printed(language: PCFG, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = lab.sentences(language, 3, seed=0)
    print(drawn)
    lines = capsys.readouterr().out.splitlines()
    assert lines == list(drawn)
    assert {word for line in lines for word in line.split()} <= set(language.vocabulary)
    assert all(len(line.split()) == 8 for line in lines)
