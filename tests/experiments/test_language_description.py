from dataclasses import replace
from functools import cache

import pytest
import torch

from block_hmm import block_hmm
from isoloss.errors import BadInput
from isoloss.experiments.language_description import LanguageDescription, describe_language
from isoloss.languages.dyck import dyck
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.measurements.entropy import language_entropy
from tiny_causal_models import masked_distributions_by_full_passes, tiny_causal_model, tiny_language

LANGUAGES = {
    "probabilistic grammar": lambda: pcfg(laptop_grammar(5)),
    "hidden Markov model": block_hmm,
    "Dyck language": lambda: dyck(6),
    "causal language model": lambda: tiny_language("gpt2"),
}


@cache
def description_of(kind: str) -> LanguageDescription:
    return describe_language(LANGUAGES[kind](), "here", sentences=30, seed=4)


@pytest.mark.parametrize(
    "kind",
    [
        "probabilistic grammar",
        pytest.param("hidden Markov model", marks=pytest.mark.thorough),
        "Dyck language",
        "causal language model",
    ],
)
def test_every_number_is_the_languages_own(kind: str) -> None:
    language, description = LANGUAGES[kind](), description_of(kind)
    assert description.kind == kind
    facts = dict(description.facts)
    assert (facts["digest"], facts["words"]) == (language.digest, str(len(language.vocabulary)))
    drawn = language.sample(6, torch.Generator().manual_seed(4))
    assert [[language.vocabulary[w] for w in ids] for ids in drawn.ids.tolist()] == [
        list(words) for words in description.sentences
    ]
    word = description.word
    assert (word.words, word.position) == (description.sentences[0], len(word.words) // 2)
    masked = language.masked_log_probabilities(drawn[:1])[0, word.position].exp()
    torch.testing.assert_close(word.masked, masked)
    following = language.next_log_probabilities(drawn[:1])[0, word.position].exp()
    torch.testing.assert_close(word.following, following)
    assert description.entropy == tuple(language_entropy(language, 30, 4))
    assert [task.name for task in description.tasks] == [task.name for task in language.tasks()]
    for task in description.tasks:
        assert 1 / task.classes <= task.blind.value <= task.ceiling.value <= 1
        assert 1 / task.classes <= task.majority.value <= 1
        assert 0 <= task.room.value < 1
        assert (task.room.settings["examples"], task.room.n) == (90, 120)
        assert (task.price is None) == (kind == "causal language model")
        assert all(record in description.records for record in task.records)
    assert description.speed.value > 0
    assert description.speed.n == (1 if kind == "causal language model" else 30)
    assert (description.derivation is not None) == (kind == "probabilistic grammar")


def test_a_causal_models_distribution_is_that_of_full_forward_passes() -> None:
    description = description_of("causal language model")
    ids = torch.tensor(["abcdefg".index(word) for word in description.sentences[0]])
    expected = masked_distributions_by_full_passes(tiny_causal_model("gpt2"), ids)[
        description.word.position
    ].exp()
    torch.testing.assert_close(description.word.masked, expected, rtol=0, atol=1e-10)
    facts = dict(description.facts)
    assert facts["model"].startswith("GPT2LMHeadModel")
    assert facts["words chosen by"] == "by hand"


@pytest.mark.thorough
def test_all_but_the_speed_is_the_same_twice() -> None:
    once, again = (
        describe("hidden Markov model") for describe in (description_of, description_of.__wrapped__)
    )
    assert torch.equal(once.word.masked, again.word.masked)
    still = {"speed": once.speed, "word": once.word}
    assert replace(again, **still) == once


def test_the_probe_of_words_reports_its_progress_which_takes_longest_of_all() -> None:
    reports: list[tuple[str, float]] = []
    describe_language(
        pcfg(laptop_grammar(5)), "here", 20, 0, lambda task, done, *_: reports.append((task, done))
    )
    assert [done for task, done in reports if task == "probe"][:40] == list(range(1, 41))


def test_too_few_sentences_are_refused() -> None:
    with pytest.raises(BadInput, match="draw at least 2"):
        describe_language(dyck(4), "here", sentences=1)
