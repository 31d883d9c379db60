from pathlib import Path

import nltk
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_grammars import CASES, MIXED

from isoloss.errors import BadInput
from isoloss.languages.grammar import Grammar, Rule, Symbol
from isoloss.languages.notation import parse_grammar, read_grammar, write_grammar

RELEASED = Path(__file__).parents[1] / "data" / "liu2023-released.pcfg"


@pytest.mark.parametrize("name", CASES)
def test_round_trip_is_the_identity(name: str) -> None:
    written = CASES[name][0]
    text = write_grammar(written)
    assert parse_grammar(text) == written
    assert write_grammar(parse_grammar(text)) == text


@pytest.mark.thorough
def test_the_released_grammar_round_trips_and_reads_as_nltk_reads_it() -> None:
    grammar = read_grammar(RELEASED)
    assert parse_grammar(write_grammar(grammar)) == grammar
    for text in (RELEASED.read_text(), write_grammar(grammar)):
        theirs = nltk.PCFG.fromstring(text)
        assert str(theirs.start()) == grammar.start.name
        assert [production_of(p) for p in theirs.productions()] == list(grammar.rules)


def production_of(production: nltk.ProbabilisticProduction) -> Rule:
    right = tuple(item if isinstance(item, str) else Symbol(str(item)) for item in production.rhs())
    return Rule(Symbol(str(production.lhs())), right, production.prob())


def test_we_read_what_nltk_writes() -> None:
    theirs = nltk.PCFG.fromstring(write_grammar(parse_grammar(MIXED)))
    rules = "\n".join(str(production) for production in theirs.productions())
    assert parse_grammar(rules) == parse_grammar(MIXED)


def test_everything_the_notation_has() -> None:
    text = "\n".join(
        [
            "%start S  # where sentences start",
            "# a comment",
            "A -> 'it' [0.5] | \\",
            '  "it\'s" [5e-1]   # a word with an apostrophe',
            "",
            "S -> A/B 'x#y' [.25] | A [0.25]",
            "S -> A A [ 0.5 ]\r",
            "A/B -> A [1]",
        ]
    )
    grammar = parse_grammar(text)
    assert grammar.start == Symbol("S")
    assert [(rule.left.name, rule.line) for rule in grammar.rules] == [
        ("A", 3), ("A", 3), ("S", 6), ("S", 6), ("S", 7), ("A/B", 8),
    ]  # fmt: skip
    assert grammar.words == ("it", "it's", "x#y")
    assert nltk.PCFG.fromstring(write_grammar(grammar)).start() == nltk.Nonterminal("S")


# With its alphabet, since all of Unicode takes more than a second to list.
names = st.from_regex(
    r"[A-Za-z][A-Za-z0-9_/^<>-]{0,5}", fullmatch=True, alphabet=st.characters(codec="ascii")
)
words = st.text(
    st.characters(exclude_categories=("Z", "C"), exclude_characters="'\n"), min_size=1, max_size=6
)


@pytest.mark.thorough
@settings(max_examples=30, deadline=None)
@given(st.lists(names, min_size=1, max_size=4, unique=True), st.data())
def test_any_grammar_round_trips(symbols: list[str], data: st.DataObject) -> None:
    rules = []
    for n, symbol in enumerate(symbols):
        lower = [Symbol(name) for name in symbols[n + 1 :]]
        item = st.one_of(words, st.sampled_from(lower)) if lower else words
        sides = data.draw(st.lists(st.lists(item, min_size=1, max_size=3), min_size=1, max_size=3))
        weights = data.draw(st.lists(st.floats(1e-9, 1), min_size=len(sides), max_size=len(sides)))
        for side, weight in zip(sides, weights, strict=True):
            rules.append(Rule(Symbol(symbol), tuple(side), weight / sum(weights)))
    grammar = Grammar(Symbol(symbols[0]), tuple(rules))
    text = write_grammar(grammar)
    assert parse_grammar(text) == grammar
    assert write_grammar(parse_grammar(text)) == text
    assert [production_of(p) for p in nltk.PCFG.fromstring(text).productions()] == rules


REFUSED = {
    "S -> A [0.5] | 'x' [0.5]\nA -> B [1.0]\nB -> S [0.1] | 'y' [0.9]": "line 1: S -> A -> B -> S is a cycle",
    "S -> S [0.5] | 'x' [0.5]": "line 1: S -> S is a cycle of single symbols",
    "S -> 'x' [0.5]\nS -> [0.5]": "line 2: S has an empty right side",
    "S -> 'x' [0.5] |": "line 1: S has an empty right side",
    "S -> A [1.0]": "line 1: the symbol A has no rules",
    "%start T\nS -> 'x' [1.0]": "the start symbol T has no rules",
    "S -> 'x' [0.5]\nT -> 'y' [0.4]\nS -> 'y' [0.5]": "line 2: the probabilities of T sum to 0.4, not 1",
    "S -> 'x' [0.7] | 'y' [0.5]": "line 1: the probabilities of S sum to 1.2, not 1",
    "S -> 'x' [0.5] | 'y' [0.498]": "line 1: the probabilities of S sum to 0.998, not 1",
    "S -> 'x' [nan]": "line 1: nan is no probability of S",
    "S -> 'x' [inf]": "line 1: inf is no probability",
    "S -> 'x' [1.5] | 'y' [-0.5]": "line 1: 1.5 is no probability",
    "S -> 'x' [-0.5] | 'y' [1.5]": "line 1: -0.5 is no probability",
    "S -> 'x' [half]": r"line 1: \[half\] is no probability",
    "S -> 'x'": "line 1: a rule of S has no probability",
    "S -> 'x' [0.5] 'y' [0.5]": "line 1: .*follows a probability",
    "S -> 'x' [1.0]\nnonsense": "line 2: a rule starts with a symbol and an arrow",
    "S -> 'x [1.0]": "line 1: cannot read .*; close the quote after the word",
    'S -> "x': "line 1: cannot read .*; close the quote after the word",
    "S -> 'y' [0.5] | 'x' [0.5": "line 1: cannot read .*; close the bracket after the probability",
    "S -> 'x' 1]": "line 1: cannot read .*; open a bracket before the probability",
    "S -> x! [1.0]": "line 1: cannot read .*; write words in quotes, and probabilities in brackets",
    "S -> 'x' -> 'y' [1.0]": "line 1: a second arrow",
    "S -> '' [1.0]": "line 1: S has an empty word",
    "S -> 'two words' [1.0]": "line 1: the word 'two words' holds a blank",
    "%end S\nS -> 'x' [1.0]": "line 1: .*only %start SYMBOL",
    "%start S\n%start T\nS -> 'x' [1.0]\nT -> 'y' [1.0]": "line 2: the start is S already",
    "": "it holds no rules",
    "# nothing\n\n%start S\n": "it holds no rules",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_is_named_with_its_line_in_one_sentence(text: str) -> None:
    with pytest.raises(BadInput, match=REFUSED[text]) as refusal:
        parse_grammar(text, "my.pcfg")
    message = str(refusal.value)
    assert message.startswith("my.pcfg")
    assert "\n" not in message


def test_files_that_are_no_grammars(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no file"):
        read_grammar(tmp_path / "none.pcfg")
    with pytest.raises(BadInput, match="is a folder"):
        read_grammar(tmp_path)
    for content, message in [
        (b"S -> 'x' [1.0]\n\xff\xfe\x00", "line 2: this is not UTF-8"),
        (b"S -> 'x' [1.0]\n\0\0", "line 2: this is binary data"),
        (b"", "it holds no rules"),
    ]:
        (tmp_path / "bad.pcfg").write_bytes(content)
        with pytest.raises(BadInput, match=message):
            read_grammar(tmp_path / "bad.pcfg")
    (tmp_path / "good.pcfg").write_bytes(b"\xef\xbb\xbfS -> '\xc3\xa9t\xc3\xa9' [1.0]\r\n")
    assert read_grammar(tmp_path / "good.pcfg").words == ("été",)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Rule(Symbol("S"), ("both'\"",), 1.0), "both kinds of quotes"),
        (Rule(Symbol("S+"), ("a",), 1.0), r"the symbol 'S\+' cannot be written"),
    ],
)
def test_what_cannot_be_written_is_refused(rule: Rule, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        write_grammar(Grammar(rule.left, (rule,)))


def test_a_cycle_of_a_rule_that_is_never_used_is_none() -> None:
    assert parse_grammar("S -> A [1]\nA -> S [0] | 'x' [1]").words == ("x",)
