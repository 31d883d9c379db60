import pytest

from isoloss.errors import BadInput
from isoloss.languages.grammar import Grammar, Symbol
from isoloss.languages.notation import parse_grammar, write_grammar
from isoloss.languages.random_grammar import laptop_grammar, random_layered_grammar


def layered(**changes: int) -> Grammar:
    settings = {
        "words": 12, "symbols_per_level": 3, "levels": 3, "rules_per_symbol": 3,
        "roots": 3, "words_per_preterminal": 4, "seed": 0,
    }  # fmt: skip
    return random_layered_grammar(**{**settings, **changes})


@pytest.mark.parametrize("seed", range(20))
def test_every_symbol_and_every_word_is_used_and_right_sides_are_distinct(seed: int) -> None:
    grammar = layered(seed=seed)
    used = {item for rule in grammar.rules for item in rule.right}
    assert {item for item in used if isinstance(item, str)} == {f"w{n}" for n in range(1, 13)}
    assert used - set(grammar.words) == set(grammar.symbols) - {Symbol("S")}
    assert len({(rule.left, rule.right) for rule in grammar.rules}) == len(grammar.rules)
    assert parse_grammar(write_grammar(grammar)) == grammar


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
