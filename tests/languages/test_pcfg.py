"""Distributions against enumeration of every derivation."""

import math
from collections import Counter
from functools import cache

import pytest
import torch
from enumeration import Enumeration, chi_square_passes, enumerate_derivations
from small_grammars import AMBIGUOUS, CASES, MIXED, ROUNDED, SUBCRITICAL, grammar, layered

from isoloss.errors import BadInput
from isoloss.languages.grammar import Grammar, Rule, Symbol, with_skewed_start, with_uniform_rules
from isoloss.languages.pcfg import PCFG, pcfg, read_pcfg
from isoloss.languages.sentences import Sentences

CHECKED = 150
NOT_IN_THE_CONTRACT = [name for name in CASES if name not in ("layered", "ambiguous, cut", "mixed, cut")]
"""The others are held against enumeration as all languages are."""
HELD_AGAINST_ENUMERATION = [
    pytest.param(name, marks=[pytest.mark.thorough] if CASES[name][2] > 6 else [])
    for name in NOT_IN_THE_CONTRACT
]
"""Two of them have thousands of sentences."""


@cache
def case(name: str) -> tuple[PCFG, Enumeration]:
    written, maximum, complete = CASES[name]
    return pcfg(written, maximum), enumerate_derivations(written, complete)


def encoded(language: PCFG, words: list[tuple[str, ...]]) -> Sentences:
    numbers = {word: number for number, word in enumerate(language.vocabulary)}
    return Sentences.from_lists([[numbers[word] for word in own] for own in words])


def some(enumeration: Enumeration) -> list[tuple[str, ...]]:
    """Sentences of every length, shortest first, but not all of them if there are very many."""
    words = sorted(enumeration.sentences, key=lambda own: (len(own), own))
    return words[:: max(1, len(words) // CHECKED)]


@pytest.mark.parametrize("name", HELD_AGAINST_ENUMERATION)
def test_masked_distribution_is_that_of_enumeration(name: str) -> None:
    language, enumeration = case(name)
    sentences = some(enumeration)
    distribution = language.masked_log_probabilities(encoded(language, sentences)).exp()
    for row, words in enumerate(sentences):
        for place in range(len(words)):
            expected = list(enumeration.masked_distribution(words, place).values())
            assert distribution[row, place].tolist() == pytest.approx(expected, rel=1e-12, abs=1e-14)
        assert not distribution[row, len(words) :].any()


@pytest.mark.parametrize("name", HELD_AGAINST_ENUMERATION)
def test_next_distribution_is_that_of_enumeration(name: str) -> None:
    language, enumeration = case(name)
    sentences = some(enumeration)[:60]
    distribution = language.next_log_probabilities(encoded(language, sentences)).exp()
    for row, words in enumerate(sentences):
        # Without a maximum, the sentences missing from the enumeration weigh 1e-12, and more after a long
        # prefix.
        whole = name == "subcritical, whole"
        for place in range(min(4, len(words)) if whole else len(words) + 1):
            expected = list(enumeration.next_distribution(words[:place]).values())
            assert distribution[row, place].tolist() == pytest.approx(expected, abs=1e-8 if whole else 1e-12)
        assert not distribution[row, len(words) + 1 :].any()


@pytest.mark.parametrize("name", HELD_AGAINST_ENUMERATION)
def test_log_probability_is_that_of_enumeration(name: str) -> None:
    language, enumeration = case(name)
    sentences = some(enumeration)
    log_probability = language.log_probability(encoded(language, sentences)).tolist()
    kept = enumeration.total if "cut" in name else 1.0
    expected = [math.log(enumeration.sentences[words] / kept) for words in sentences]
    assert log_probability == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_the_weight_of_all_derivations_is_that_of_enumeration() -> None:
    language, enumeration = case("rounded")
    assert abs(enumeration.total - 1) > 1e-4
    assert math.exp(language.log_z) == pytest.approx(enumeration.total, rel=1e-14)


@pytest.mark.parametrize("name", HELD_AGAINST_ENUMERATION)
def test_sampled_frequencies_pass_a_chi_square_test(name: str) -> None:
    language, enumeration = case(name)
    n, vocabulary = 20_000, language.vocabulary
    drawn = language.sample(n, torch.Generator().manual_seed(1))
    rows = zip(drawn.ids.tolist(), drawn.lengths.tolist(), strict=True)
    counts = Counter(tuple(vocabulary[word] for word in ids[:length]) for ids, length in rows)
    expected = {words: n * weight / enumeration.total for words, weight in enumeration.sentences.items()}
    assert chi_square_passes(counts, expected)


def test_the_draws_do_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    language = pcfg(grammar(AMBIGUOUS), 9)
    whole = language.sample(50, torch.Generator().manual_seed(3))
    monkeypatch.setattr("isoloss.languages.sampling.CHUNK", 7)
    assert torch.equal(language.sample(50, torch.Generator().manual_seed(3)).ids, whole.ids)


def test_distributions_do_not_depend_on_the_memory_budget() -> None:
    from dataclasses import replace

    language = pcfg(grammar(MIXED))
    sentences = language.sample(10, torch.Generator().manual_seed(0))
    tight = replace(language, memory_bytes=1)
    assert torch.allclose(
        tight.masked_log_probabilities(sentences), language.masked_log_probabilities(sentences), atol=1e-14
    )
    assert torch.allclose(
        tight.next_log_probabilities(sentences), language.next_log_probabilities(sentences), atol=1e-14
    )


def test_a_recursive_grammar_works_without_a_maximum_but_has_none() -> None:
    language = pcfg(grammar(SUBCRITICAL))
    drawn = language.sample(3000, torch.Generator().manual_seed(0))
    assert drawn.ids.shape[1] == drawn.lengths.max()
    with pytest.raises(BadInput, match="no longest; give a maximum length"):
        _ = language.maximum_length


def test_unbounded_sentences_have_room() -> None:
    """Means of 20 words, and many sentences beyond the space with which sampling starts."""
    language = pcfg(grammar("S -> 'a' S [0.95] | 'b' [0.05]"))
    drawn = language.sample(4000, torch.Generator().manual_seed(0))
    assert int(drawn.lengths.max()) > 100
    assert float(drawn.lengths.double().mean()) == pytest.approx(20, abs=4 * 19.5 / 4000**0.5)


def test_a_maximum_above_the_longest_changes_nothing() -> None:
    assert pcfg(grammar(MIXED), 99).maximum_length == pcfg(grammar(MIXED)).maximum_length
    longest = pcfg(grammar(MIXED)).maximum_length
    for maximum in (longest, 99):
        assert pcfg(grammar(MIXED), maximum).digest == pcfg(grammar(MIXED)).digest


def test_digests_tell_languages_apart_and_nothing_else() -> None:
    digests = {pcfg(grammar(MIXED)).digest, pcfg(grammar(MIXED), 4).digest, pcfg(grammar(MIXED), 5).digest}
    assert len(digests | {pcfg(layered(0)).digest, pcfg(layered(1)).digest}) == 5
    assert pcfg(grammar(MIXED + "# a comment\n")).digest in digests


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words", ["x" * 24 + "y" * 24 + "e" + "z" * 48, "y" * 24 + "x" * 24 + "e" + "z" * 48]
)
def test_spans_that_a_prefix_does_not_have_yet_overflow_nothing(words: str) -> None:
    """Nor is a word of 1e-12 less known than one of 1/2, whatever comes before or after."""
    rules = (
        "S -> X S Z [1e-12] | Y S Z [0.5] | 'e' [0.499999999999]\nX -> 'x' [1]\nY -> 'y' [1]\nZ -> 'z' [1]"
    )
    language = pcfg(grammar(rules))
    found = language.next_log_probabilities(encoded(language, [tuple(words)]))[0].exp()
    before = torch.tensor([[0.499999999999, 1e-12, 0.5, 0, 0]], dtype=torch.float64).expand(49, -1)
    after = torch.tensor([[0, 0, 0, 1.0, 0]], dtype=torch.float64).expand(48, -1)
    torch.testing.assert_close(found[:97], torch.cat([before, after]), rtol=1e-9, atol=0)


def test_a_chart_that_overflows_is_not_said_to_be_outside_of_the_language() -> None:
    """Twelve words of 1e-50 each, which are completed long after as many of 1/2."""
    rules = "S -> X S Z [1e-50] | Y S Z [0.5] | 'e' [0.5]\nX -> 'x' [1]\nY -> 'y' [1]\nZ -> 'z' [1]"
    language = pcfg(grammar(rules))
    long = encoded(language, [tuple("x" * 12 + "y" * 12 + "e" + "z" * 24)])
    assert math.isfinite(language.log_probability(long))
    with pytest.raises(BadInput, match=r"check its words, and that .* nor too unlike along"):
        language.next_log_probabilities(long)


def test_sentences_outside_the_language() -> None:
    language = pcfg(grammar(ROUNDED))
    outside = encoded(language, [("a", "b", "a", "b")])
    assert language.log_probability(outside).tolist() == [-math.inf]
    with pytest.raises(BadInput, match="sentence 1: no word at all fits position 1"):
        pcfg(grammar("S -> 'a' 'a' 'a' [0.5] | 'b' 'b' 'b' [0.5]")).masked_log_probabilities(
            Sentences.from_lists([[0, 1, 0]])
        )
    with pytest.raises(BadInput, match="no sentence of the language goes on at position 3"):
        pcfg(grammar("S -> 'a' 'a' 'a' [0.5] | 'b' 'b' 'b' [0.5]")).next_log_probabilities(
            Sentences.from_lists([[0, 1, 0]])
        )
    with pytest.raises(BadInput, match="no sentence of the language has 9 words"):
        language.masked_log_probabilities(Sentences.from_lists([[0] * 9]))


@pytest.mark.parametrize("maximum", [0, -3])
def test_a_maximum_length_that_leaves_nothing_is_refused(maximum: int) -> None:
    with pytest.raises(BadInput, match="give at least 1"):
        pcfg(grammar(AMBIGUOUS), maximum)


def test_a_maximum_length_below_every_sentence_is_refused() -> None:
    with pytest.raises(BadInput, match="only 0 of its sentences have at most 2 words"):
        pcfg(grammar("S -> 'a' 'b' 'c' [1.0]"), 2)


def test_a_maximum_length_that_hardly_a_sentence_has_is_refused() -> None:
    assert pcfg(grammar("S -> 'a' S [0.99998] | 'b' [0.00002]"), 1).log_share == pytest.approx(math.log(2e-5))
    with pytest.raises(BadInput, match="only 5e-06 of its sentences have at most 1 words"):
        pcfg(grammar("S -> 'a' S [0.999995] | 'b' [0.000005]"), 1)


def test_right_sides_that_end_alike_keep_their_own_probabilities() -> None:
    language = pcfg(grammar("S -> A 'x' 'y' [0.75] | B 'x' 'y' [0.25]\nA -> 'a' [1]\nB -> 'b' [1]"))
    sentences = encoded(language, [("a", "x", "y"), ("b", "x", "y")])
    assert language.log_probability(sentences).exp().tolist() == pytest.approx([0.75, 0.25], rel=1e-12)


def test_spans_may_begin_at_uneven_places() -> None:
    """Spans of two words begin at the first, the third and the sixth."""
    language = pcfg(grammar("S -> X X 'w' X [1]\nX -> 'a' 'b' [0.25] | 'c' 'd' [0.75]"))
    sentence = encoded(language, [tuple("abcdwab")])
    assert language.log_probability(sentence).exp().item() == pytest.approx(0.25 * 0.75 * 0.25, rel=1e-12)


@pytest.mark.thorough
def test_very_improbable_sentences_do_not_underflow() -> None:
    """e^-1576: far below the smallest float64, and so is a half of the sentence."""
    words = 76
    language = pcfg(grammar("S -> X S [1e-9] | 'y' S [0.5] | 'e' [0.499999999]\nX -> 'x' [1.0]"))
    sentence = encoded(language, [("x",) * words + ("e",)])
    expected = words * math.log(1e-9) + math.log(0.499999999)
    assert language.log_probability(sentence).item() == pytest.approx(expected, rel=1e-13)
    distribution = dict(
        zip(language.vocabulary, language.masked_log_probabilities(sentence)[0, 5].tolist(), strict=True)
    )
    assert distribution["x"] - distribution["y"] == pytest.approx(math.log(1e-9 / 0.5), rel=1e-12)
    following = language.next_log_probabilities(sentence)[0, words // 2]
    assert following[language.vocabulary.index("x")].item() == pytest.approx(math.log(1e-9), rel=1e-12)


def test_after_very_improbable_words_the_end_keeps_its_share() -> None:
    rules = "Q -> S [0.6] | S 'f' [0.4]\nS -> X S Z [1e-24] | Y S Z [0.5] | 'e' [0.5]"
    language = pcfg(grammar(f"{rules}\nX -> 'x' [1]\nY -> 'y' [1]\nZ -> 'z' [1]"))
    words = tuple("x" * 12 + "y" * 12 + "e" + "z" * 24)
    following = language.next_log_probabilities(encoded(language, [words]))[0, -1].exp().tolist()
    assert following == pytest.approx(
        [0.4 if word == "f" else 0.0 for word in language.vocabulary] + [0.6], rel=1e-9
    )


def test_reading_a_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "g.pcfg"
    path.write_text(AMBIGUOUS)
    assert read_pcfg(path, 5).maximum_length == 5
    with pytest.raises(BadInput, match="infinite expected length"):
        read_pcfg(path)


@pytest.mark.parametrize("name", ["B C", "'a'", '"a"', "B\tC"])
def test_symbols_that_are_named_as_a_normal_forms_own_are_refused(name: str) -> None:
    """Only Python can name them so: of S -> A B C and A "B C" each sentence had the probability of both."""
    start, odd = Symbol("S"), Symbol(name)
    rules = (Rule(start, ("a", odd), 1.0), Rule(odd, ("b",), 1.0))
    with pytest.raises(BadInput, match="holds a blank or a quote; call it otherwise"):
        pcfg(Grammar(start, rules))


def test_shifted_rules_leave_what_is_impossible_so() -> None:
    rules = ("S -> A [0.5] | B [0] | C [0.5]", "A -> 'a' [1]", "B -> 'b' [1]", "C -> 'c' [0] | 'd' [1]")
    written = grammar("\n".join(rules))
    skewed, uniform = with_skewed_start(written), with_uniform_rules(written)
    assert [rule.probability for rule in skewed.rules] == [0.8, 0.0, 0.2, 1.0, 1.0, 0.0, 1.0]
    assert [rule.probability for rule in uniform.rules] == [0.5, 0.0, 0.5, 1.0, 1.0, 0.0, 1.0]
