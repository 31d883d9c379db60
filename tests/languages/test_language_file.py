import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hmmlearn.hmm import CategoricalHMM

from block_hmm import block_hmm
from isoloss.errors import BadInput
from isoloss.languages.dyck import dyck
from isoloss.languages.hmm import HMM, write_hmm
from isoloss.languages.language_file import from_hmmlearn, parse_hmm, read_language
from isoloss.languages.pcfg import PCFG
from isoloss.languages.random_hmm import random_hmm
from isoloss.languages.sentences import Sentences


def test_the_content_tells_the_kind(tmp_path: Path) -> None:
    path = tmp_path / "language"
    path.write_text("S -> 'a' S [0.5] | 'b' [0.5]\n")
    grammar = read_language(str(path), 3)
    assert isinstance(grammar, PCFG)
    assert grammar.maximum_length == 3
    path.write_text("\ufeff \n" + write_hmm(block_hmm()))
    model = read_language(path)
    assert isinstance(model, HMM)
    assert model.digest == block_hmm().digest
    path.write_text('{"dyck": {"length": 6}}')
    assert read_language(path) == dyck(6)
    with pytest.raises(
        BadInput, match="is no grammar, and its sentences have one length; leave the maximum length out"
    ):
        read_language(path, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"dyck": {"length": 3}}', "give an even length of at least 2"),
        ('{"causal_language_model": "x"}', "is a causal language; read it with models.causal_language"),
        ("", "it holds no rules"),
        (json.dumps({}), "the key words is missing"),
        ("{", "this is not JSON"),
        ("[1, 2]", "this is JSON but no object; write an object with the keys words, "),
    ],
)
def test_what_is_neither_is_refused(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "language"
    path.write_text(content)
    with pytest.raises(BadInput, match=message) as refusal:
        read_language(path)
    assert str(path) in str(refusal.value)
    with pytest.raises(BadInput, match="a grammar in NLTK's notation, or JSON of an HMM"):
        read_language(tmp_path / "none")


GOOD: dict[str, Any] = {
    "words": ["a", "b"],
    "initial": [0.5, 0.5],
    "transition": [[0.9, 0.1], [0.2, 0.8]],
    "emission": [[0.7, 0.3], [0.0, 1.0]],
    "length": 3,
}


def changed(**values: Any) -> str:
    return json.dumps(GOOD | values)


REFUSED = {
    "": "this is not JSON",
    '{"words": ["a"],': r"this is not JSON \(.*line 1",
    "[" * 200_000: "nested too deeply",
    "1" * 5000: "this is not JSON",
    "[1, 2]": "no object; write an object with the keys words, initial",
    json.dumps({key: GOOD[key] for key in GOOD if key != "emission"}): "the key emission is missing",
    changed(emision=[[1]]): "the key 'emision' is unknown",
    changed(words=[]): "words is no list of texts, or an empty one",
    changed(words="ab"): "words is no list of texts",
    changed(words=["a", 1]): "words is no list of texts",
    changed(words=["a", "a"]): "the word 'a' stands twice",
    changed(words=["a", ""]): "'' is no word",
    changed(words=["a", "b c"]): "'b c' is no word",
    changed(length=0): "a length of 0 leaves no sentence",
    changed(length=2.5): "length is not a whole number",
    changed(length=True): "length is not a whole number",
    changed(initial=[]): "initial, row 1 has 0 numbers where 1 are needed",
    changed(initial=0.5): "initial, row 1 has no list",
    changed(initial=[0.5, 0.6]): "initial, row 1 sums to 1.1; make its probabilities sum to 1",
    changed(initial=[1.5, -0.5]): "initial, row 1 has 1.5 at place 1, which is no probability",
    changed(transition=[[0.9, 0.1]]): "transition has 1 rows where the states need 2",
    changed(transition=[[0.9, 0.1], [0.8]]): "transition, row 2 has 1 numbers where 2 are needed",
    changed(transition={"a": 1}): "transition has no list",
    changed(transition=[[0.9, 0.1], 3]): "transition, row 2 has no list",
    changed(transition=[[0.9, 0.1], [0.2, 0.9]]): "transition, row 2 sums to 1.1",
    changed(
        transition=[[0.9, 0.1], [-0.2, 1]]
    ): "transition, row 2 has -0.2 at place 1, which is no probability",
    changed(emission=[[0.7, 0.3], [0.0, float("nan")]]): "emission, row 2 has nan at place 2",
    changed(emission=[[0.7, 0.3], [0.0, float("inf")]]): "emission, row 2 has inf, which is no probability",
    changed(emission=[[0.7, 0.3], [0.0, "1"]]): "emission, row 2 has '1', which is no probability",
    changed(emission=[[0.7, 0.3], [True, False]]): "emission, row 2 has True, which is no probability",
    changed(emission=[[0.7, 0.3, 0.0], [0.0, 1.0, 0.0]]): "emission, row 1 has 3 numbers where 2 are needed",
    changed(emission=[[0.7, 0.3], [0.0, 10**400]]): "emission, row 2 has 1000.*which is no probability",
}


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused_is_named_with_its_file_in_one_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "my.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=REFUSED[text]) as refusal:
        parse_hmm(path.read_text(), str(path))
    assert str(refusal.value).startswith(str(path))
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 300


def test_rows_that_almost_sum_to_one_are_normalised_and_others_are_as_written() -> None:
    language = parse_hmm(changed(transition=[[0.9, 0.1000005], [0.2, 0.8]]))
    assert language.transition[0].tolist() == [0.9 / 1.0000005, 0.1000005 / 1.0000005]
    assert language.transition[1].tolist() == [0.2, 0.8]


@pytest.mark.parametrize("seed", range(5))
def test_writing_and_reading_is_the_identity(seed: int) -> None:
    language = random_hmm(words=35, states=14, blocks=7, length=3, seed=seed)
    again = parse_hmm(write_hmm(language))
    for name in ("initial", "transition", "emission"):
        assert torch.equal(getattr(again, name), getattr(language, name))
    assert (again.words, again.length, again.digest) == (language.words, language.length, language.digest)
    assert json.loads(write_hmm(language))["length"] == 3


def test_any_words_can_be_written() -> None:
    language = parse_hmm(changed(words=['"\\', "Äpfel"]))
    assert parse_hmm(write_hmm(language)).words == ('"\\', "Äpfel")


def test_digests_tell_every_part() -> None:
    variants = [
        GOOD,
        GOOD | {"words": ["b", "a"]},
        GOOD | {"initial": [0.4, 0.6]},
        GOOD | {"transition": [[0.8, 0.2], [0.2, 0.8]]},
        GOOD | {"emission": [[0.6, 0.4], [0.0, 1.0]]},
        GOOD | {"length": 4},
    ]
    assert len({parse_hmm(json.dumps(variant)).digest for variant in variants}) == len(variants)


def test_a_fitted_hmmlearn_model_becomes_a_language() -> None:
    rng = np.random.default_rng(0)
    model = CategoricalHMM(3, n_iter=5, random_state=0).fit(rng.integers(0, 4, (200, 1)), [20] * 10)
    language = from_hmmlearn(model, ["a", "b", "c", "d"], length=6)
    ids = language.sample(30, torch.Generator().manual_seed(0)).ids
    theirs = [model.score(one.reshape(-1, 1).numpy()) for one in ids]
    sentences = Sentences(ids, torch.full((30,), 6))
    assert language.log_probability(sentences).tolist() == pytest.approx(theirs, rel=1e-12)
    _, posteriors = model.score_samples(ids.reshape(-1, 1).numpy(), [6] * 30)
    ours = language.state_posteriors(sentences).reshape(-1, 3).numpy()
    np.testing.assert_allclose(ours, posteriors, rtol=0, atol=1e-12)
    paths = [model.decode(one.reshape(-1, 1).numpy())[1].tolist() for one in ids]
    assert language.best_paths(sentences).tolist() == paths


FITTED = ("startprob_", "transmat_", "emissionprob_")


def test_hmmlearn_models_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadInput, match="the hmmlearn model has no startprob_; fit a CategoricalHMM first"):
        from_hmmlearn(CategoricalHMM(2), ["a"], 3)
    model = CategoricalHMM(2, n_iter=1, random_state=0).fit(np.array([[0, 1, 1, 0]]).T)
    with pytest.raises(
        BadInput, match=r"emission has shape \(2, 2\), and 2 states and 3 words need \(2, 3\)"
    ):
        from_hmmlearn(model, ["a", "b", "c"], 3)
    with pytest.raises(BadInput, match="the hmmlearn model: length is not a whole number; give the number"):
        from_hmmlearn(model, ["a", "b"], True)
    counted = SimpleNamespace(n_trials=5, **{name: getattr(model, name) for name in FITTED})
    with pytest.raises(BadInput, match="the hmmlearn model draws several words at a time; fit a Categ"):
        from_hmmlearn(counted, ["a", "b"], 3)
    arrays = SimpleNamespace(**{name: getattr(model, name) for name in FITTED})
    assert from_hmmlearn(arrays, ["a", "b"], 3).digest == from_hmmlearn(model, ["a", "b"], 3).digest
    arrays.startprob_ = np.float64(1.0)
    with pytest.raises(BadInput, match=r"the hmmlearn model: initial has shape \(\); give a row of numbers"):
        from_hmmlearn(arrays, ["a", "b"], 3)
