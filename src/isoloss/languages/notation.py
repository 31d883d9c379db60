"""NLTK's notation of probabilistic grammars: `S -> NP VP [0.7] | 'go' [0.3]`, read and written."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from isoloss.errors import BadInput
from isoloss.files import read_text
from isoloss.languages.grammar import Grammar, Rule, Symbol, check_well_formed

LANGUAGE_FILE = "a language: a grammar in NLTK's notation, or JSON of an HMM, a Dyck or a causal language"
"""What a language's file holds."""

_SYMBOL = re.compile(r"[\w/][\w/^<>-]*")
_TOKEN = re.compile(
    r"""((?P<arrow>->) | (?P<bar>\|) | (?P<word>"[^"]*"|'[^']*') | \[(?P<probability>[^\]]*)\]
    | (?P<symbol>[\w/][\w/^<>-]*))\s*""",
    re.VERBOSE,
)
_REMEDIES = {
    "[": "close the bracket after the probability, such as [0.5]",
    "]": "open a bracket before the probability, such as [0.5]",
    "'": "close the quote after the word",
    '"': "close the quote after the word",
}
"""What is wrong where no token can be read, by the first character."""


def read_grammar(path: Path) -> Grammar:
    """Read a grammar file (UTF-8, NLTK's notation).

    Raises BadInput when there is no such file, when it is no text, or for what `parse_grammar` refuses.
    """
    return parse_grammar(read_text(path, "a grammar in NLTK's notation"), str(path))


def parse_grammar(text: str, source: str = "the grammar") -> Grammar:
    r"""Read a grammar from its text; the first rule's symbol is the start unless `%start S` names another.

    Raises BadInput, naming the line, for a malformed line and for what `check_well_formed` refuses.

    >>> grammar = parse_grammar("S -> 'a' S [0.25] | 'b' [0.75]")
    >>> [(rule.left.name, len(rule.right), rule.probability) for rule in grammar.rules]
    [('S', 2, 0.25), ('S', 1, 0.75)]
    """
    start: Symbol | None = None
    rules: list[Rule] = []
    for number, line in _logical_lines(text):
        place = f"{source}, line {number}"
        if line.startswith("%"):
            if start is not None:
                raise BadInput(f"{place}: the start is {start.name} already; name one symbol by %start")
            start = _start_directive(line, place)
        else:
            rules.extend(_rules_of_line(line, number, place))
    if not rules:
        raise BadInput(f"{source}: it holds no rules; write at least one, such as S -> 'word' [1.0]")
    grammar = Grammar(start or rules[0].left, tuple(rules), source)
    check_well_formed(grammar)
    return grammar


def is_json(text: str) -> bool:
    """Whether a file's text is meant as JSON; no grammar starts with a brace or a bracket."""
    return text.lstrip().startswith(("{", "["))


def json_content(text: str, source: str) -> Any:
    """What the JSON of a language holds. Raises BadInput for what is none."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadInput(f"{source}: this is not JSON ({error}); mend it") from error
    except RecursionError as error:
        raise BadInput(f"{source}: its lists are nested too deeply for an HMM; mend it") from error


def write_grammar(grammar: Grammar) -> str:
    r"""Write a grammar, one rule per line, so that reading it gives an equal grammar.

    Probabilities have the fewest digits that read back as the same number, without exponents, which
    NLTK does not read. Raises BadInput for what the notation cannot express.

    >>> print(write_grammar(parse_grammar('S -> "it\'s" [1e-5] | S S [0.25] | "b" [0.74999]')), end="")
    S -> "it's" [0.00001]
    S -> S S [0.25]
    S -> 'b' [0.74999]
    """
    check_well_formed(grammar)
    lines = [] if grammar.start == grammar.rules[0].left else [f"%start {grammar.start.name}"]
    for rule in grammar.rules:
        right = " ".join(_written(item, grammar.place(rule)) for item in rule.right)
        lines.append(f"{_written(rule.left, grammar.place(rule))} -> {right} [{_decimal(rule.probability)}]")
    return "\n".join(lines) + "\n"


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Non-empty lines without comments, a trailing backslash joining the next; numbered by the first."""
    pending, first = "", 0
    lines = text.split("\n")
    for number, raw in enumerate(lines, start=1):
        line = _without_comment(raw).strip()
        first = first if pending else number
        if line.endswith("\\") and number < len(lines):
            pending += line[:-1].rstrip() + " "
            continue
        line, pending = (pending + line).strip(), ""
        if line:
            yield first, line


def _without_comment(line: str) -> str:
    """`line` up to the first # outside quotes."""
    quote = ""
    for place, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "#":
            return line[:place]
    return line


def _start_directive(line: str, place: str) -> Symbol:
    directive, _, argument = line[1:].partition(" ")
    if directive != "start" or not _SYMBOL.fullmatch(argument.strip()):
        raise BadInput(f"{place}: {line!r} is no directive; only %start SYMBOL is one")
    return Symbol(argument.strip())


def _rules_of_line(line: str, number: int, place: str) -> Iterator[Rule]:
    tokens = _tokens(line, place)
    if [kind for kind, _ in tokens[:2]] != ["symbol", "arrow"]:
        raise BadInput(
            f"{place}: a rule starts with a symbol and an arrow, such as S -> A B [0.5]; mend {line!r}"
        )
    left = Symbol(tokens[0][1])
    right: list[Symbol | str] = []
    probability: float | None = None
    for kind, value in [*tokens[2:], ("bar", "|")]:
        if kind == "bar":
            if probability is None and not right:
                raise BadInput(
                    f"{place}: {left.name} has an empty right side; every rule needs a symbol or a word"
                )
            if probability is None:
                raise BadInput(
                    f"{place}: a rule of {left.name} has no probability; end it with one, such as [0.5]"
                )
            yield Rule(left, tuple(right), probability, number)
            right, probability = [], None
        elif kind == "arrow":
            raise BadInput(f"{place}: a second arrow; write one rule a line, or separate right sides with |")
        elif probability is not None:
            raise BadInput(
                f"{place}: {value!r} follows a probability; separate right sides of {left.name} with |"
            )
        elif kind == "probability":
            probability = _number(value, place)
        else:
            right.append(Symbol(value) if kind == "symbol" else value[1:-1])


def _tokens(line: str, place: str) -> list[tuple[str, str]]:
    tokens, position = [], 0
    while position < len(line):
        match = _TOKEN.match(line, position)
        if not match:
            unread = line[position : position + 20]
            remedy = _REMEDIES.get(unread[0], "write words in quotes, and probabilities in brackets")
            raise BadInput(f"{place}: cannot read {unread!r}; {remedy}")
        kind = next(name for name, value in match.groupdict().items() if value is not None)
        tokens.append((kind, match[kind]))
        position = match.end()
    return tokens


def _number(text: str, place: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise BadInput(
            f"{place}: [{text}] is no probability; write a number from 0 to 1, such as [0.5]"
        ) from error


def _written(item: Symbol | str, place: str) -> str:
    if isinstance(item, Symbol):
        if not _SYMBOL.fullmatch(item.name):
            raise BadInput(
                f"{place}: the symbol {item.name!r} cannot be written; use letters, digits, _ - / ^ < >"
            )
        return item.name
    if "'" not in item:
        return f"'{item}'"
    if '"' in item:
        raise BadInput(f"{place}: the word {item!r} holds both kinds of quotes; drop one")
    return f'"{item}"'


def _decimal(probability: float) -> str:
    return format(Decimal(repr(probability)), "f")
