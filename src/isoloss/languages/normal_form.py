"""Converts a grammar to binary rules with the same derivations and weights."""

from collections import defaultdict
from dataclasses import dataclass
from graphlib import TopologicalSorter

import torch
from jaxtyping import Bool
from torch import Tensor

from isoloss.inference.chart_plan import BinaryGrammar
from isoloss.languages.grammar import Grammar, Right, Rule, Symbol

Weights = dict[Symbol, float]


@dataclass(frozen=True)
class NormalForm:
    """The tensors of a grammar, and the names of its symbols.

    Its symbols are those of the grammar that have a rule other than a unit rule, followed by helpers (lifted
    words, remainders of long right sides), whose `written` is false and which are never shown to users.
    """

    grammar: BinaryGrammar
    names: tuple[str, ...]
    written: Bool[Tensor, " S"]


def normal_form(grammar: Grammar) -> NormalForm:
    """Lift words out of longer right sides, binarise to the right, fold unit rules exactly.

    Chains of unit rules (A -> B) are folded into the right sides and the start, so that they cost nothing,
    and the symbol below them stays visible: S -> S1 makes S1 a root. If a symbol has unit rules, its other
    rules are rescaled to sum to 1, and chains that end there are multiplied by their former sum. Equal rules
    are summed. Words are numbered as in `grammar.words`; the grammar must be well-formed.

    >>> from isoloss.languages.notation import parse_grammar
    >>> form = normal_form(parse_grammar("S -> T [1.0]" + chr(10) + "T -> 'a' T 'b' [0.5] | 'c' [0.5]"))
    >>> form.names, form.grammar.initial.tolist()
    (('T', "'a'", "T 'b'", "'b'"), [1.0, 0.0, 0.0, 0.0])
    """
    rules = [rule for rule in grammar.rules if rule.probability > 0]
    shares = _shares_of_others(rules)
    ends = _unit_closures(rules, shares)
    long_rules = _LongRules()
    emitted: dict[tuple[Symbol, str], float] = defaultdict(float)
    for rule in rules:
        if len(rule.right) > 1:
            long_rules.add(rule.left, rule.right, rule.probability / shares[rule.left])
        elif isinstance(rule.right[0], str):
            emitted[rule.left, rule.right[0]] += rule.probability / shares[rule.left]
    emitted.update({(symbol, word): 1.0 for word, symbol in long_rules.lifted.items()})
    binary: dict[tuple[Symbol, Symbol, Symbol], float] = defaultdict(float)
    for parent, left, right, weight in long_rules.binary:
        for first, first_weight in ends.get(left, {left: 1.0}).items():
            for second, second_weight in ends.get(right, {right: 1.0}).items():
                binary[parent, first, second] += weight * first_weight * second_weight
    bottom = dict.fromkeys(rule.left for rule in rules if not _is_unit(rule))
    symbols = [*bottom, *long_rules.helpers]
    written = torch.arange(len(symbols)) < len(bottom)
    tensors = _tensors(symbols, grammar.words, ends[grammar.start], binary, emitted)
    return NormalForm(tensors, tuple(symbol.name for symbol in symbols), written)


class _LongRules:
    """Right sides of two or more: A -> X Y Z becomes A -> X (Y Z), (Y Z) -> Y Z, rests shared.

    A helper's name contains spaces or quotes, so that it cannot collide with a written symbol's.
    """

    def __init__(self) -> None:
        self.binary: list[tuple[Symbol, Symbol, Symbol, float]] = []
        self.lifted: dict[str, Symbol] = {}
        self.helpers: dict[Symbol, None] = {}

    def add(self, parent: Symbol, right: Right, weight: float) -> None:
        while len(right) > 2:
            right, first = right[1:], right[0]
            rest = Symbol(" ".join(item.name if isinstance(item, Symbol) else repr(item) for item in right))
            self.binary.append((parent, self._lift(first), rest, weight))
            if rest in self.helpers:
                return
            self.helpers[rest] = None
            parent, weight = rest, 1.0
        self.binary.append((parent, self._lift(right[0]), self._lift(right[1]), weight))

    def _lift(self, item: Symbol | str) -> Symbol:
        if isinstance(item, Symbol):
            return item
        symbol = self.lifted.setdefault(item, Symbol(repr(item)))
        self.helpers[symbol] = None
        return symbol


def _is_unit(rule: Rule) -> bool:
    return len(rule.right) == 1 and isinstance(rule.right[0], Symbol)


def _shares_of_others(rules: list[Rule]) -> Weights:
    """The total probability of each symbol's rules other than unit rules; 1 if all are unit rules."""
    shares: Weights = defaultdict(float)
    for rule in rules:
        shares[rule.left] += 0.0 if _is_unit(rule) else rule.probability
    with_units = {rule.left for rule in rules if _is_unit(rule)}
    return {symbol: share if symbol in with_units else 1.0 for symbol, share in shares.items()}


def _unit_closures(rules: list[Rule], shares: Weights) -> dict[Symbol, Weights]:
    """R = Σ_k U^k D, U[A, B] = p(A -> B), D the shares of other rules: where each symbol's chains end.

    The sum is finite because there are no cycles; symbols are taken from the bottom up.
    """
    units: dict[Symbol, list[tuple[Symbol, float]]] = {rule.left: [] for rule in rules}
    for rule in rules:
        if _is_unit(rule) and isinstance(rule.right[0], Symbol):
            units[rule.left].append((rule.right[0], rule.probability))
    below = {symbol: [child for child, _ in children] for symbol, children in units.items()}
    ends: dict[Symbol, Weights] = {}
    for symbol in TopologicalSorter(below).static_order():
        weights: Weights = defaultdict(float)
        if shares[symbol] > 0:
            weights[symbol] = shares[symbol]
        for child, probability in units[symbol]:
            for end, weight in ends[child].items():
                weights[end] += probability * weight
        ends[symbol] = dict(weights)
    return ends


def _tensors(
    symbols: list[Symbol],
    words: tuple[str, ...],
    initial: Weights,
    binary: dict[tuple[Symbol, Symbol, Symbol], float],
    emitted: dict[tuple[Symbol, str], float],
) -> BinaryGrammar:
    place = {symbol: number for number, symbol in enumerate(symbols)}
    number = {word: number for number, word in enumerate(words)}
    root = torch.zeros(len(symbols), dtype=torch.float64)
    emission = torch.zeros(len(symbols), len(words), dtype=torch.float64)
    for symbol, weight in initial.items():
        root[place[symbol]] = weight
    for (symbol, word), weight in emitted.items():
        emission[place[symbol], number[word]] = weight
    triples = torch.tensor([[place[s] for s in rule] for rule in binary], dtype=torch.int64).reshape(-1, 3)
    weights = torch.tensor(list(binary.values()), dtype=torch.float64)
    return BinaryGrammar(root, triples[:, 0], triples[:, 1], triples[:, 2], weights, emission)
