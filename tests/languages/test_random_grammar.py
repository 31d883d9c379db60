from collections import Counter

import pytest
import torch

from isoloss.errors import BadInput
from isoloss.languages.grammar import Grammar, Symbol
from isoloss.languages.notation import parse_grammar, write_grammar
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import (
    laptop_grammar,
    random_hierarchy_grammar,
    random_layered_grammar,
    with_independent_halves,
    with_other_upper_rules,
)
from isoloss.languages.sentences import Sentences
from isoloss.measurements.room_and_price import price
from thorough_cases import others_thorough


def layered(**changes: int) -> Grammar:
    settings = {
        "words": 12, "symbols_per_level": 3, "levels": 3, "rules_per_symbol": 3,
        "roots": 3, "words_per_preterminal": 4, "seed": 0,
    }  # fmt: skip
    return random_layered_grammar(**{**settings, **changes})


@pytest.mark.parametrize("seed", others_thorough(range(20), quick=6))
def test_every_symbol_and_every_word_is_used_and_right_sides_are_distinct(seed: int) -> None:
    grammar = layered(seed=seed)
    used = {item for rule in grammar.rules for item in rule.right}
    assert {item for item in used if isinstance(item, str)} == {f"w{n}" for n in range(1, 13)}
    assert used - set(grammar.words) == set(grammar.symbols) - {Symbol("S")}
    assert len({(rule.left, rule.right) for rule in grammar.rules}) == len(grammar.rules)
    assert parse_grammar(write_grammar(grammar)) == grammar


@pytest.mark.parametrize("seed", range(10))
def test_other_upper_rules_use_every_symbol(seed: int) -> None:
    """Two roots with one rule each have just as many places as there are symbols below."""
    grammar = layered(symbols_per_level=4, roots=2, rules_per_symbol=1, levels=2)
    other = with_other_upper_rules(grammar, shared_levels=1, seed=seed)
    below = {item for rule in other.rules if rule.left.name.startswith("R") for item in rule.right}
    assert below == {Symbol(f"L1_{n}") for n in range(1, 5)}


def test_seeds_make_grammars() -> None:
    assert laptop_grammar(1) == laptop_grammar(1) != laptop_grammar(2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"words": 13}, "cannot use all of 13 words"),
        ({"words": 3}, "3 symbols with 4 distinct words each"),
        ({"rules_per_symbol": 10}, "cannot have distinct right sides"),
        ({"symbols_per_level": 8, "roots": 1, "rules_per_symbol": 3}, "use all 8 symbols"),
        ({"levels": 0}, "at least one of everything, not 0"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        layered(**changes)


def test_tight_numbers_are_met() -> None:
    assert layered(symbols_per_level=6, roots=1, rules_per_symbol=3, words=24).symbols
    assert layered(rules_per_symbol=9).symbols


def hierarchy(seed: int = 0, concentration: float = 2.0, **changes: int) -> Grammar:
    settings = {
        "symbols_per_level": 4, "words_per_preterminal": 2, "levels": 3, "rules_per_symbol": 3, "roots": 4,
    }  # fmt: skip
    return random_hierarchy_grammar(**{**settings, **changes}, concentration=concentration, seed=seed)


@pytest.mark.parametrize("seed", others_thorough(range(20), quick=6))
def test_a_hierarchy_has_one_parent_for_each_right_side_and_uses_every_symbol(seed: int) -> None:
    grammar = hierarchy(seed)
    below_start = [rule for rule in grammar.rules if rule.left != grammar.start]
    assert max(Counter(rule.right for rule in below_start).values()) == 1
    assert Counter(Counter(rule.left for rule in below_start).values()) == {3: 12, 2: 4}
    used = {item for rule in grammar.rules for item in rule.right}
    assert used == (set(grammar.symbols) - {grammar.start}) | {f"w{n}" for n in range(1, 9)}
    assert parse_grammar(write_grammar(grammar)) == grammar
    assert grammar == hierarchy(seed) != hierarchy(seed + 1)


def test_every_posterior_of_a_hierarchy_is_decided() -> None:
    language = pcfg(hierarchy())
    for task in language.tasks():
        posterior = task.sample(200, torch.Generator().manual_seed(0)).posterior
        assert posterior.amax(1).min() == pytest.approx(1, abs=1e-12)


def test_a_large_concentration_makes_all_rules_equally_likely() -> None:
    rules = hierarchy(concentration=1e12).rules
    assert {round(rule.probability, 4) for rule in rules if rule.left.name.startswith("R")} == {0.3333}
    assert len({round(rule.probability, 4) for rule in hierarchy(concentration=1.0).rules}) > 20


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rules_per_symbol": 5}, "make 16 pairs, too few for 20 right sides"),
        ({"roots": 6}, "make 16 pairs, too few for 18 right sides"),
        ({"rules_per_symbol": 1, "roots": 1}, "use all 4 symbols"),
        ({"words_per_preterminal": 0}, "at least one of everything, not 0"),
        ({"concentration": 0}, "a concentration of 0 makes no random distributions"),
    ],
)
def test_a_hierarchy_that_does_not_fit_is_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        hierarchy(**changes)


@pytest.mark.parametrize("shared", [0, 1, 2])
@pytest.mark.parametrize("grammar", [layered(seed=3), hierarchy(3), hierarchy(rules_per_symbol=4)])
def test_a_second_language_shares_the_lower_rules_and_no_whole_level_above(
    grammar: Grammar, shared: int
) -> None:
    other = with_other_upper_rules(grammar, shared, seed=1)
    assert other == with_other_upper_rules(grammar, shared, seed=1)
    assert other.words == grammar.words
    assert [(r.left, r.probability) for r in other.rules] == [(r.left, r.probability) for r in grammar.rules]
    levels = ["R", "L1_", "L2_", "L3_", "S"]
    changed = levels[: 3 - shared]
    for level in levels:
        before, after = (
            {rule for rule in every.rules if rule.left.name.startswith(level)} for every in (grammar, other)
        )
        assert (before != after) == (level in changed)
    used = {item for rule in other.rules for item in rule.right}
    assert used == {item for rule in grammar.rules for item in rule.right}
    parents = [
        sorted(Counter(rule.right for rule in every.rules if rule.left.name.startswith("L1_")).values())
        for every in (grammar, other)
    ]
    assert parents[0] == parents[1]


@pytest.mark.parametrize(
    ("grammar", "shared", "message"),
    [
        (laptop_grammar(0), 3, "of 3 binary levels, 3 cannot be shared"),
        (laptop_grammar(0), -1, "share 0 to 2"),
        (hierarchy(rules_per_symbol=16, roots=1, levels=1), 0, "no other pairs of L1_1 to L1_4"),
        (parse_grammar("S -> A [1]\nA -> A A [0.5] | 'a' [0.5]"), 0, "is not layered"),
        (parse_grammar("S -> A [1]\nA -> B B B [1]\nB -> 'a' [1]"), 0, "is not binary"),
        (parse_grammar("S -> A [1]\nA -> B B [0.5] | 'b' [0.5]\nB -> 'a' [1]"), 0, "is not layered"),
    ],
)
def test_what_has_no_second_language_is_refused(grammar: Grammar, shared: int, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        with_other_upper_rules(grammar, shared, seed=0)


ALL_PAIRS = {
    "symbols_per_level": 3,
    "rules_per_symbol": 3,
    "roots": 3,
    "levels": 2,
    "words_per_preterminal": 1,
}


@pytest.mark.parametrize("dependence", [0.0, 0.3, 1.0])
def test_halves_depend_by_the_share_that_is_asked(dependence: float) -> None:
    """All 81 sentences: the joint distribution of the halves is the mixture, labels are the same."""
    grammar = hierarchy(5, **ALL_PAIRS)
    before, after = pcfg(grammar), pcfg(with_independent_halves(grammar, dependence))
    ids = torch.cartesian_prod(*[torch.arange(3)] * 4)
    every = Sentences(ids, torch.full((81,), 4))
    whole, mixed = (language.log_probability(every).exp().view(9, 9) for language in (before, after))
    product = whole.sum(1, keepdim=True) * whole.sum(0, keepdim=True)
    torch.testing.assert_close(mixed, dependence * whole + (1 - dependence) * product, rtol=1e-9, atol=1e-12)
    labels = [language.tasks()[0].label(every).labels for language in (before, after)]
    assert torch.equal(*labels)
    assert (mixed - product).abs().max() > 0.005 or dependence == 0


def test_a_root_that_independent_halves_determine_has_no_price() -> None:
    prices = []
    for dependence in (0.0, 0.3, 1.0):
        language = pcfg(with_independent_halves(hierarchy(5, **ALL_PAIRS), dependence))
        prices.append(price(language, language.tasks()[0]).value)
    assert prices[0] == pytest.approx(0, abs=1e-12)
    assert 1e-5 < prices[1] < prices[2] / 3


@pytest.mark.parametrize(
    ("grammar", "dependence", "message"),
    [
        (hierarchy(5, **ALL_PAIRS), 1.5, "a share from 0 to 1"),
        (hierarchy(), 0.5, "the roots have 12 right sides, and 4 symbols below them make 16 pairs"),
    ],
)
def test_halves_that_cannot_be_made_independent_are_refused(
    grammar: Grammar, dependence: float, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        with_independent_halves(grammar, dependence)
