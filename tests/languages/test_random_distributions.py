"""Any small grammar, recursive ones cut at four words, against enumeration."""

import math

import pytest
from enumeration import enumerate_derivations
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_pcfg import encoded

from isoloss.languages.grammar import Grammar, Rule, Symbol
from isoloss.languages.pcfg import pcfg

MAXIMUM = 4


@st.composite
def grammars(draw: st.DrawFn) -> Grammar:
    symbols = [Symbol(name) for name in "SAB"]
    rules = []
    for number, symbol in enumerate(symbols):
        alone = st.tuples(st.sampled_from(["a", "b", *symbols[number + 1 :]]))
        item = st.sampled_from(["a", "b", *symbols])
        longer = st.lists(item, min_size=2, max_size=3).map(tuple)
        sides = draw(st.lists(st.one_of(alone, longer), min_size=1, max_size=4))
        weights = draw(st.lists(st.integers(0, 8), min_size=len(sides), max_size=len(sides)))
        assume(sum(weights))
        rules += [Rule(symbol, side, w / sum(weights)) for side, w in zip(sides, weights, strict=True)]
    return Grammar(symbols[0], tuple(rules))


@settings(max_examples=12, deadline=None)
@given(grammars())
def test_distributions_of_a_few_small_grammars(grammar: Grammar) -> None:
    assert_distributions(grammar)


@pytest.mark.thorough
@settings(max_examples=60, deadline=None)
@given(grammars())
def test_distributions_of_any_small_grammar(grammar: Grammar) -> None:
    assert_distributions(grammar)


def assert_distributions(grammar: Grammar) -> None:
    enumeration = enumerate_derivations(grammar, MAXIMUM)
    assume(enumeration.total > 1e-3)
    language = pcfg(grammar, MAXIMUM)
    sentences = sorted(words for words, weight in enumeration.sentences.items() if weight > 0)[:8]
    batch = encoded(language, sentences)
    masked, following = (
        language.masked_log_probabilities(batch).exp(),
        language.next_log_probabilities(batch).exp(),
    )
    log_probability = language.log_probability(batch).tolist()
    if language.corners.maximum is not None:
        expected = [math.log(enumeration.sentences[words] / enumeration.total) for words in sentences]
        assert log_probability == pytest.approx(expected, abs=1e-10)
    for row, words in enumerate(sentences):
        for place in range(len(words)):
            expected = list(enumeration.masked_distribution(words, place).values())
            assert masked[row, place].tolist() == pytest.approx(expected, abs=1e-12)
        for place in range(len(words) + 1):
            expected = list(enumeration.next_distribution(words[:place]).values())
            assert following[row, place].tolist() == pytest.approx(expected, abs=1e-11)
