"""What HMMs have beyond the contract: files, states, sampling at scale, refusals."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hmmlearn.hmm import CategoricalHMM
from scipy.stats import chi2

from isoloss.errors import BadInput
from isoloss.languages.hmm import HMM, StateTask, hmm
from isoloss.languages.hmm_file import from_hmmlearn, parse_hmm, read_hmm, write_hmm
from isoloss.languages.random_hmm import laptop_hmm, random_hmm
from isoloss.languages.sentences import Sentences

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
        read_hmm(path)
    assert str(refusal.value).startswith(str(path))
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 300


def test_rows_that_almost_sum_to_one_are_normalised_and_others_are_as_written() -> None:
    language = parse_hmm(changed(transition=[[0.9, 0.1000005], [0.2, 0.8]]))
    assert language.transition[0].tolist() == [0.9 / 1.0000005, 0.1000005 / 1.0000005]
    assert language.transition[1].tolist() == [0.2, 0.8]


def test_no_words_are_refused() -> None:
    with pytest.raises(BadInput, match="the HMM: words is empty"):
        hmm([], torch.ones(1), torch.ones(1, 1), torch.ones(1, 0), 3)


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


def test_hmmlearn_models_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadInput, match="the hmmlearn model has no startprob_; fit a CategoricalHMM first"):
        from_hmmlearn(CategoricalHMM(2), ["a"], 3)
    model = CategoricalHMM(2, n_iter=1, random_state=0).fit(np.array([[0, 1, 1, 0]]).T)
    with pytest.raises(
        BadInput, match=r"emission has shape \(2, 2\), and 2 states and 3 words need \(2, 3\)"
    ):
        from_hmmlearn(model, ["a", "b", "c"], 3)


def test_states_and_words_follow_their_distributions() -> None:
    """Pairs of neighbouring states and of states and words, each against its expectation."""
    language = random_hmm(words=4, states=3, blocks=1, length=5, seed=0)
    n = 20_000
    sentences, states = language.sample_with_states(n, torch.Generator().manual_seed(0))
    assert torch.equal(sentences.ids, language.sample(n, torch.Generator().manual_seed(0)).ids)
    marginal = language.initial
    for t in range(5):
        joint = marginal[:, None] * language.emission
        assert_frequencies(states[:, t] * 4 + sentences.ids[:, t], joint.flatten())
        if t + 1 < 5:
            joint = marginal[:, None] * language.transition
            assert_frequencies(states[:, t] * 3 + states[:, t + 1], joint.flatten())
            marginal = joint.sum(0)


def assert_frequencies(cells: torch.Tensor, distribution: torch.Tensor) -> None:
    expected = distribution * len(cells)
    seen = torch.bincount(cells, minlength=len(distribution))
    statistic = ((seen - expected) ** 2 / expected).sum().item()
    assert statistic < chi2.ppf(0.9999, len(distribution) - 1)


def test_blocks_never_mix() -> None:
    settings = {"words": 200, "states": 100, "blocks": 10, "length": 16}
    language = random_hmm(**settings, seed=0)
    sentences, states = language.sample_with_states(2000, torch.Generator().manual_seed(0))
    assert (states // 10 == states[:, :1] // 10).all()
    assert (sentences.ids // 20 == states // 10).all()
    assert len((states[:, 0] // 10).unique()) == 10
    assert language.log_probability(sentences).isfinite().all()
    assert random_hmm(**settings, seed=0).digest == language.digest != random_hmm(**settings, seed=1).digest


def test_posterior_states_are_right_as_often_as_they_say() -> None:
    """The ceiling is calibrated: the mean largest posterior is how often the label is the true state."""
    language = laptop_hmm(0)
    n = 4000
    sentences, states = language.sample_with_states(n, torch.Generator().manual_seed(1))
    for task in (StateTask(language, 1), StateTask(language, 6)):
        labelled = task.label(sentences)
        largest = labelled.posterior.amax(1)
        right = (labelled.labels == states[:, task.position - 1]).double()
        spread = (largest * (1 - largest)).sum().sqrt() / n
        assert abs(right.mean() - largest.mean()) < 4 * spread
        assert task.name == f"state-{task.position}"
    assert [task.name for task in language.tasks()] == [f"state-{k}" for k in range(1, 9)]


def test_equal_states_are_a_tie_that_the_first_wins() -> None:
    same = torch.full((3, 3), 1 / 3, dtype=torch.float64)
    language = hmm(["a", "b", "c"], same[0], same, same, 2)
    assert not StateTask(language, 2).sample(50, torch.Generator().manual_seed(0)).labels.any()


def test_results_do_not_depend_on_the_memory_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    language = laptop_hmm(0)
    tight = replace(language, memory_bytes=1)
    sentences = language.sample(9, torch.Generator().manual_seed(0))
    for name in (
        "masked_log_probabilities",
        "next_log_probabilities",
        "log_probability",
        "state_posteriors",
        "best_paths",
    ):
        ours, theirs = getattr(tight, name)(sentences), getattr(language, name)(sentences)
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
    labelled = StateTask(language, 3).label(sentences)
    monkeypatch.setattr("isoloss.languages.hmm.SENTENCES_AT_ONCE", 4)
    assert torch.equal(StateTask(language, 3).label(sentences).labels, labelled.labels)
    monkeypatch.setattr("isoloss.languages.sampling.CHUNK", 4)
    assert torch.equal(language.sample(9, torch.Generator().manual_seed(0)).ids, sentences.ids)


def test_beginnings_have_next_word_distributions_whatever_their_padding() -> None:
    language = laptop_hmm(0)
    whole = language.sample(1, torch.Generator().manual_seed(0))
    full = language.next_log_probabilities(whole)[0]
    for length in range(1, 8):
        beginning = Sentences(whole.ids[:, :length], torch.tensor([length]))
        assert torch.equal(language.next_log_probabilities(beginning)[0], full[: length + 1])
    ragged = Sentences(whole.ids.repeat(7, 1), torch.arange(1, 8))
    ragged.ids[~ragged.real] = -1
    distribution = language.next_log_probabilities(ragged)
    for row, length in enumerate(range(1, 8)):
        torch.testing.assert_close(
            distribution[row, : length + 1], full[: length + 1], rtol=1e-12, atol=1e-12
        )
        assert (distribution[row, length + 1 :] == -math.inf).all()
    assert full[8].exp().tolist() == [0] * 12 + [1]


@pytest.fixture
def two_blocks() -> HMM:
    return hmm(["a", "b"], torch.full((2,), 0.5), torch.eye(2), torch.eye(2), 3)


def test_impossible_sentences_are_refused_where_they_have_no_distribution(two_blocks: HMM) -> None:
    good, bad = [0, 0, 0], [0, 1, 1]
    sentences = Sentences.from_lists([good, bad])
    assert two_blocks.log_probability(sentences).tolist() == [pytest.approx(math.log(0.5)), -math.inf]
    with pytest.raises(BadInput, match="sentence 2: no word at all fits position 2; check its words"):
        two_blocks.masked_log_probabilities(sentences)
    with pytest.raises(BadInput, match="sentence 2: no sentence of the language goes on at position 3"):
        two_blocks.next_log_probabilities(sentences)
    for refused in (two_blocks.state_posteriors, two_blocks.best_paths):
        with pytest.raises(BadInput, match="sentence 2: no path of states emits these words"):
            refused(sentences)
    with pytest.raises(BadInput, match="sentence 1: no sentence of the language goes on at position 4"):
        two_blocks.next_log_probabilities(Sentences.from_lists([[0, 0, 1]]))
    with pytest.raises(BadInput, match="sentence 1: no sentence of the language goes on at position 5"):
        two_blocks.next_log_probabilities(Sentences.from_lists([[0, 0, 0, 0]]))


def test_one_wrong_word_has_a_masked_distribution_of_its_own(two_blocks: HMM) -> None:
    one_wrong = hmm(["a", "b"], torch.full((2,), 0.5), torch.eye(2), torch.eye(2), 1)
    assert one_wrong.masked_log_probabilities(Sentences.from_lists([[1]])).exp().tolist() == [[[0.5, 0.5]]]
    with pytest.raises(BadInput, match="no word at all fits position 1"):
        two_blocks.masked_log_probabilities(Sentences.from_lists([[0, 0, 1]]))


@pytest.mark.parametrize("words", [[0, 0], [0, 0, 0, 0]])
def test_other_lengths_have_no_probability_and_no_masked_distribution(
    two_blocks: HMM, words: list[int]
) -> None:
    sentences = Sentences.from_lists([[0, 0, 0], words])
    assert two_blocks.log_probability(sentences)[1] == -math.inf
    for refused in (two_blocks.masked_log_probabilities, two_blocks.state_posteriors, two_blocks.best_paths):
        with pytest.raises(BadInput, match=f"sentence 2 has {len(words)} words, the language's have 3"):
            refused(sentences)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"words": 0}, "at least one of everything"),
        ({"blocks": 3}, "8 states and 12 words cannot be cut into 3 equal blocks"),
        ({"words": 10, "blocks": 4}, "8 states and 10 words cannot be cut into 4 equal blocks"),
    ],
)
def test_random_hmms_that_cannot_be_are_refused(numbers: dict[str, int], message: str) -> None:
    usual = {"words": 12, "states": 8, "blocks": 2, "length": 3, "seed": 0}
    with pytest.raises(BadInput, match=message):
        random_hmm(**(usual | numbers))


def test_random_distributions_are_uniform_over_all_distributions() -> None:
    """A part of a uniform distribution over k places has mean 1/k and variance (k - 1) / (k² (k + 1))."""
    dense = random_hmm(words=5, states=400, blocks=1, length=2, seed=0)
    values = dense.emission.flatten()
    assert values.mean().item() == pytest.approx(1 / 5, abs=1e-12)
    assert values.var().item() == pytest.approx(4 / (25 * 6), rel=0.1)
    assert all((dense.transition > 0).all(1))
    pairs = itertools.combinations(range(5), 2)
    assert all(abs(torch.corrcoef(dense.emission[:, pair].T)[0, 1] + 1 / 4) < 0.2 for pair in pairs)


def test_concentrations_are_those_of_the_dirichlet_distributions() -> None:
    """Such a probability among k, with concentration α, has variance (k - 1) / (k² (kα + 1))."""
    dials = {"transition_concentration": 0.15, "emission_concentration": 0.5}
    language = random_hmm(words=200, states=400, blocks=40, length=2, seed=0, **dials)
    for distribution, k, concentration in ((language.transition, 10, 0.15), (language.emission, 5, 0.5)):
        variance = distribution.square().sum().item() / (400 * k) - 1 / k**2
        assert variance == pytest.approx((k - 1) / (k**2 * (k * concentration + 1)), rel=0.1)
    assert all(
        distribution.sum(1) == pytest.approx([1.0] * 400)
        for distribution in (language.transition, language.emission)
    )


def test_a_concentration_of_one_is_what_seeds_always_gave() -> None:
    numbers = {"words": 6, "states": 4, "blocks": 2, "length": 3, "seed": 3}
    assert random_hmm(**numbers, emission_concentration=1.0).digest == random_hmm(**numbers).digest
    with pytest.raises(BadInput, match="concentrations of 0 and 1 make no random distributions"):
        random_hmm(**numbers, transition_concentration=0.0)
