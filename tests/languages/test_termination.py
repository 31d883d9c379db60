import math
import random

import pytest
from enumeration import enumerate_derivations
from small_grammars import CASES, grammar

from isoloss.errors import BadInput
from isoloss.languages.derivations import longest_sentence
from isoloss.languages.notation import parse_grammar
from isoloss.languages.termination import check_terminates, proper_grammar


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("S -> S S [0.5] | 'a' [0.5]", "line 1: S has an infinite expected length"),
        ("S -> 'a' [0.5] | A [0.5]\nA -> S 'b' S 'b' S [0.7] | 'c' [0.3]", "infinite expected length"),
        ("S -> 'a' S [1.0]", "line 1: S can never end in words"),
        ("S -> 'a' [0.5] | A [0.5]\nA -> 'b' A [1.0]", "line 2: A can never end in words"),
        ("S -> 'a' S [1.0] | 'b' [0.0]", "line 1: S can never end in words"),
    ],
)
def test_grammars_that_do_not_end_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        check_terminates(parse_grammar(text))


@pytest.mark.parametrize(
    "text",
    [
        "S -> S S [0.49] | 'a' [0.51]",
        "S -> 'a' S [0.999] | 'b' [0.001]",
        "S -> 'a' [1.0]\nA -> A A [0.9] | 'b' [0.1]",  # never reached
        "S -> 'a' [1.0] | A S [0.0]\nA -> 'b' [1.0]",  # never used
    ],
)
def test_grammars_that_end_are_accepted(text: str) -> None:
    check_terminates(parse_grammar(text))


def test_many_levels_are_not_mistaken_for_recursion() -> None:
    levels = [f"L{n} -> L{n + 1} L{n + 1} [1.0]" for n in range(60)]
    check_terminates(parse_grammar("\n".join([*levels, "L60 -> 'a' [1.0]"])))
    assert longest_sentence(parse_grammar("\n".join([*levels, "L60 -> 'a' [1.0]"]))) == 2**60


@pytest.mark.parametrize("name", CASES)
def test_the_longest_sentence(name: str) -> None:
    written, maximum, complete = CASES[name]
    longest = longest_sentence(written)
    if maximum is None and longest is not None:
        lengths = [len(words) for words in enumerate_derivations(written, complete).sentences]
        assert longest == max(lengths)
    else:
        assert (longest is None) == ("critical" in name or "ambiguous" in name)


@pytest.mark.parametrize("name", CASES)
def test_proper_probabilities_sum_to_one_and_keep_relative_weights(name: str) -> None:
    written = CASES[name][0]
    proper, z = proper_grammar(written)
    for symbol in proper.symbols:
        total = math.fsum(rule.probability for rule in proper.rules if rule.left == symbol)
        assert total == pytest.approx(1, abs=1e-14)
    ours, theirs = (enumerate_derivations(g, 4).sentences for g in (proper, written))
    assert {words: weight * z for words, weight in ours.items()} == pytest.approx(theirs, rel=1e-13)


def test_a_grammar_that_is_proper_already_is_left_alone() -> None:
    written = grammar("S -> S S [0.7] | 'a' [0.3]")
    assert proper_grammar(written) == (written, 1.0)


def test_a_symbol_that_never_ends_gets_no_weight() -> None:
    proper, z = proper_grammar(grammar("S -> 'a' [0.25] | A [0.75]\nA -> 'b' A [1.0]"))
    assert [rule.probability for rule in proper.rules] == pytest.approx([1, 0, 0])
    assert z == pytest.approx(0.25)


@pytest.mark.thorough
def test_the_weight_of_all_derivations_solves_a_quadratic_however_near_it_is_to_having_no_solution() -> None:
    draws = random.Random(0)
    for _ in range(300):
        p, excess = draws.uniform(0.3, 0.4998), draws.uniform(-9e-4, 9e-4)
        q = 1 - p + excess
        if (room := 1 - 4 * p * q) <= 0:
            continue
        _, z = proper_grammar(grammar(f"S -> S S [{p}] | 'a' [{q}]"))
        assert z == pytest.approx((1 - math.sqrt(room)) / (2 * p), rel=1e-12 / math.sqrt(room))


def test_weights_above_one_without_a_finite_sum_are_refused() -> None:
    with pytest.raises(BadInput, match="never dies out"):
        proper_grammar(grammar("S -> S S [0.5] | 'a' [0.5009]"))


@pytest.mark.parametrize("text", ["S -> 'a' S [1.0] | 'b' [0.0005]", "S -> S S [0.5005] | 'a' [0.5]"])
def test_sums_above_one_whose_recursion_never_dies_out_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="make every symbol's probabilities sum to 1"):
        proper_grammar(parse_grammar(text))
