"""What is told of a sentence or a task without torch agrees with the language itself."""

from itertools import product

import pytest
import torch

from isoloss.errors import BadInput
from isoloss.experiments.languages import grammar_of_scale, headline_grammar, second_grammar
from isoloss.languages import outside
from isoloss.languages.derivations import first_misplaced_word
from isoloss.languages.grammar import Grammar
from isoloss.languages.notation import parse_grammar
from isoloss.languages.outside import refuse_outside_file, refuse_underivable
from isoloss.languages.pcfg import pcfg
from isoloss.languages.sentences import encode_sentence

GRAMMARS = (
    "S -> S S [0.3] | 'a' [0.5] | 'b' 'a' [0.2]",
    "S -> A 'b' [0.5] | B [0.5]\nA -> B 'a' [0.5] | 'a' [0.5]\nB -> C [1]\nC -> 'b' 'b' 'a' [0] | 'b' [1]",
    "S -> 'a' S 'b' [0.4] | 'a' 'b' [0.6]",
)


@pytest.mark.parametrize("text", GRAMMARS)
def test_the_first_misplaced_word_is_where_the_exact_distributions_stop(text: str) -> None:
    grammar = parse_grammar(text)
    language = pcfg(grammar, 4)
    for length in range(1, 5):
        for words in product("ab", repeat=length):
            log_probability = language.log_probability(encode_sentence(" ".join(words), language.vocabulary))
            place = first_misplaced_word(grammar, words)
            assert (place is None) == bool(log_probability.isfinite()), words
            if place is not None and place < length:
                assert all(
                    first_misplaced_word(grammar, (*words[: place + 1], *rest)) == place
                    for rest in product("ab", repeat=2)
                )


@pytest.mark.parametrize(
    "grammar",
    [headline_grammar().grammar, pytest.param(second_grammar().grammar, marks=pytest.mark.thorough)],
)
def test_every_sentence_drawn_is_one(grammar: Grammar) -> None:
    language = pcfg(grammar)
    drawn, vocabulary = language.sample(20, torch.Generator().manual_seed(0)), language.vocabulary
    for ids in drawn.ids.tolist():
        words = [vocabulary[word] for word in ids]
        assert first_misplaced_word(grammar, words) is None
        assert refuse_underivable(" ".join(words), grammar) is None


def test_a_large_grammar_is_left_to_its_language(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_for: list[int] = []
    monkeypatch.setattr(outside, "first_misplaced_word", lambda _, words: looked_for.append(len(words)))
    grammar = grammar_of_scale("paper").grammar
    refuse_underivable(" ".join([grammar.words[0]] * 32), grammar)
    assert looked_for == []
    refuse_underivable("b", parse_grammar(GRAMMARS[0]))
    assert looked_for == [1]


def test_only_where_all_strings_are_balanced_others_are_outside() -> None:
    with pytest.raises(BadInput, match="not as many < as >"):
        refuse_outside_file("< <", {"dyck": {"length": 2}})
    assert refuse_outside_file("< <", {"dyck": {"length": 2, "balanced_share": 0.5}}) is None


def test_a_file_that_is_not_understood_is_left_to_its_parser() -> None:
    mistaken = ({"words": ["a", "a"], "length": 3}, {"words": ["a"], "length": 0}, {"dyck": {"length": True}})
    for content in (
        [],
        {"dyck": {}},
        {"words": "ab", "length": 2},
        {"causal_language_model": "x"},
        *mistaken,
    ):
        assert refuse_outside_file("a b c", content) is None


@pytest.mark.parametrize(("maximum", "longest"), [(2, 2), (9, 3), (None, 3)])
def test_what_is_too_long_is_told_the_least_of_both_lengths(maximum: int | None, longest: int) -> None:
    grammar = parse_grammar("S -> 'a' 'a' 'a' [0.5] | 'a' [0.5]")
    with pytest.raises(BadInput, match=f"has 4 words, the longest of the language {longest}; shorten it"):
        refuse_underivable("a a a a", grammar, maximum)
