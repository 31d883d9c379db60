"""A probabilistic context-free grammar as plain data, and whether it is well formed."""

import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter

from isoloss.errors import BadInput

SUM_TOLERANCE = 1e-3
"""How far a symbol's probabilities may sum from 1: the released grammar's A4_1 misses by 2.3e-4."""


@dataclass(frozen=True)
class Symbol:
    """A symbol that rules rewrite (a nonterminal); words are plain strings."""

    name: str


Right = tuple[Symbol | str, ...]
"""A right side: symbols and words, left to right."""


@dataclass(frozen=True)
class Rule:
    """`left` rewrites to `right` with `probability`; `line` is its line in the source, 0 if there is none."""

    left: Symbol
    right: Right
    probability: float
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Grammar:
    """A start symbol and rules, in the order written; `source` names the file for error messages.

    >>> s = Symbol("S")
    >>> Grammar(s, (Rule(s, ("a", s), 0.5), Rule(s, ("b",), 0.5))).words
    ('a', 'b')
    """

    start: Symbol
    rules: tuple[Rule, ...]
    source: str = field(default="the grammar", compare=False)

    @property
    def words(self) -> tuple[str, ...]:
        """Every word, in the order of first appearance."""
        return tuple(
            dict.fromkeys(item for rule in self.rules for item in rule.right if isinstance(item, str))
        )

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """Every symbol that has rules, in the order of first appearance as a left side."""
        return tuple(dict.fromkeys(rule.left for rule in self.rules))

    def place(self, rule: Rule) -> str:
        """The place of `rule` in the source, for messages."""
        return (
            f"{self.source}, line {rule.line}" if rule.line else f"{self.source}, rules of {rule.left.name}"
        )


def with_skewed_start(grammar: Grammar, ratio: float = 0.25) -> Grammar:
    """The same rules, where each rule of the start symbol is `ratio` times as likely as the one before it.

    A rule of probability 0 stays that, so that the same sentences are possible.

    >>> s, a, b = Symbol("S"), Symbol("A"), Symbol("B")
    >>> rules = (Rule(s, (a,), 0.5), Rule(s, (b,), 0.5), Rule(a, ("x",), 1.0), Rule(b, ("y",), 1.0))
    >>> [rule.probability for rule in with_skewed_start(Grammar(s, rules)).rules]
    [0.8, 0.2, 1.0, 1.0]
    """
    used = [rule.left == grammar.start and rule.probability > 0 for rule in grammar.rules]
    weights = [ratio**place for place in range(sum(used))]
    skewed = iter([weight / sum(weights) for weight in weights])
    rules = [
        replace(rule, probability=next(skewed)) if is_used else rule
        for rule, is_used in zip(grammar.rules, used, strict=True)
    ]
    return replace(grammar, rules=tuple(rules), source=f"{grammar.source}, with a skewed start")


def with_uniform_rules(grammar: Grammar) -> Grammar:
    """The same rules, with equal probabilities for each symbol other than the start.

    A rule of probability 0 stays that, so that the same sentences are possible.

    >>> s, a = Symbol("S"), Symbol("A")
    >>> rules = (Rule(s, (a,), 1.0), Rule(a, ("x",), 0.9), Rule(a, ("y",), 0.1))
    >>> [rule.probability for rule in with_uniform_rules(Grammar(s, rules)).rules]
    [1.0, 0.5, 0.5]
    """
    count = Counter(rule.left for rule in grammar.rules if rule.probability > 0)
    rules = [
        rule
        if rule.left == grammar.start or rule.probability == 0
        else replace(rule, probability=1 / count[rule.left])
        for rule in grammar.rules
    ]
    return replace(grammar, rules=tuple(rules), source=f"{grammar.source}, with uniform rules")


def check_well_formed(grammar: Grammar) -> None:
    """Raise BadInput for a grammar from which no distribution can be computed.

    That is: a probability that is not a number from 0 to 1, an empty right side, a word that is empty or
    holds a blank, a symbol whose name holds a blank or a quote, a symbol without rules, probabilities of one
    symbol that do not sum to 1 within SUM_TOLERANCE, and symbols that rewrite to themselves through single
    symbols (unit cycles).

    >>> check_well_formed(Grammar(Symbol("S"), (Rule(Symbol("S"), ("a",), 0.9, 1),), "g.pcfg"))
    Traceback (most recent call last):
    isoloss.errors.BadInput: g.pcfg, line 1: the probabilities of S sum to 0.9, not 1; mend its rules
    """
    if not grammar.rules:
        raise BadInput(f"{grammar.source}: it holds no rules; write at least one, such as S -> 'word' [1.0]")
    defined = set(grammar.symbols)
    if grammar.start not in defined:
        raise BadInput(
            f"{grammar.source}: the start symbol {grammar.start.name} has no rules; write some for it"
        )
    for rule in grammar.rules:
        _check_rule(grammar, rule, defined)
    _check_sums(grammar)
    _check_unit_cycles(grammar)


def _check_rule(grammar: Grammar, rule: Rule, defined: set[Symbol]) -> None:
    place = grammar.place(rule)
    if not 0 <= rule.probability <= 1:
        raise BadInput(
            f"{place}: {rule.probability} is no probability of {rule.left.name}; write one from 0 to 1"
        )
    if re.search(r"[\s'\"]", rule.left.name):
        raise BadInput(f"{place}: the symbol {rule.left.name!r} holds a blank or a quote; call it otherwise")
    if not rule.right:
        raise BadInput(
            f"{place}: {rule.left.name} has an empty right side; every rule needs a symbol or a word"
        )
    for item in rule.right:
        if isinstance(item, Symbol):
            if item not in defined:
                raise BadInput(
                    f"{place}: the symbol {item.name} has no rules; write some, or quote it as a word"
                )
        elif not item:
            raise BadInput(f"{place}: {rule.left.name} has an empty word; put a word between the quotes")
        elif any(character.isspace() for character in item):
            raise BadInput(
                f"{place}: the word {item!r} holds a blank; words are separated by blanks, so drop it"
            )


def _check_sums(grammar: Grammar) -> None:
    by_symbol: dict[Symbol, list[Rule]] = defaultdict(list)
    for rule in grammar.rules:
        by_symbol[rule.left].append(rule)
    for symbol, rules in by_symbol.items():
        total = math.fsum(rule.probability for rule in rules)
        if abs(total - 1) > SUM_TOLERANCE:
            place = grammar.place(rules[0])
            raise BadInput(
                f"{place}: the probabilities of {symbol.name} sum to {total:.6g}, not 1; mend its rules"
            )


def _check_unit_cycles(grammar: Grammar) -> None:
    units: dict[Symbol, dict[Symbol, Rule]] = defaultdict(dict)
    for rule in grammar.rules:
        if rule.probability > 0 and len(rule.right) == 1 and isinstance(rule.right[0], Symbol):
            units[rule.left][rule.right[0]] = rule
    try:
        TopologicalSorter(units).prepare()
    except CycleError as error:
        cycle: list[Symbol] = error.args[1][::-1]  # graphlib lists each symbol after those that it leads to
        place = grammar.place(units[cycle[0]][cycle[1]])
        names = " -> ".join(symbol.name for symbol in cycle)
        raise BadInput(f"{place}: {names} is a cycle of single symbols; remove one of its rules") from error
