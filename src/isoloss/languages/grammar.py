"""A probabilistic context-free grammar as plain data."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Symbol:
    """A symbol that rules rewrite (a nonterminal); words are plain strings."""

    name: str


Right = tuple[Symbol | str, ...]
"""A right side: symbols and words, left to right."""


@dataclass(frozen=True)
class Rule:
    """`left` rewrites to `right` with `probability`; `line` tells where it was written, 0 if nowhere."""

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
        """Where a reader finds `rule`."""
        return (
            f"{self.source}, line {rule.line}" if rule.line else f"{self.source}, rules of {rule.left.name}"
        )
