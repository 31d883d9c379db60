"""The oracle: every derivation of a small grammar, rule by rule as written; and frequencies against it."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from scipy.stats import chi2

from isoloss.languages.grammar import Grammar, Symbol
from isoloss.languages.language import Derivation

Words = tuple[str, ...]


@dataclass(frozen=True)
class Enumeration:
    """All derivations of at most `maximum` words, with the product of their probabilities as written."""

    grammar: Grammar
    maximum: int
    trees: tuple[tuple[Derivation, float], ...]

    @cached_property
    def sentences(self) -> dict[Words, float]:
        weights: dict[Words, float] = defaultdict(float)
        for tree, weight in self.trees:
            weights[tree.words] += weight
        return dict(weights)

    @cached_property
    def total(self) -> float:
        return math.fsum(weight for _, weight in self.trees)

    def masked_distribution(self, words: Words, place: int) -> dict[str, float]:
        joint = {
            word: self.sentences.get((*words[:place], word, *words[place + 1 :]), 0.0)
            for word in self.grammar.words
        }
        total = math.fsum(joint.values())
        return {word: weight / total for word, weight in joint.items()}

    @cached_property
    def continuations(self) -> dict[Words, dict[str | None, float]]:
        """After each prefix, the weight of all sentences that go on with a word; None is the end."""
        found: dict[Words, dict[str | None, float]] = {}
        for words, weight in self.sentences.items():
            for place, following in enumerate([*words, None]):
                joint = found.setdefault(words[:place], dict.fromkeys([*self.grammar.words, None], 0.0))
                joint[following] += weight
        return found

    def next_distribution(self, prefix: Words) -> dict[str | None, float]:
        """The next word's distribution after `prefix`; None is the end."""
        joint = self.continuations[prefix]
        total = math.fsum(joint.values())
        return {word: weight / total for word, weight in joint.items()}

    @cached_property
    def chains(self) -> list[tuple[Words, dict[int, str], float]]:
        """Each derivation's words, the symbol that spans its first n words for every n, and its weight."""
        return [(tree.words, leftmost_chain(tree), weight) for tree, weight in self.trees]

    def prefix_posterior(self, prefix: Words) -> dict[str, float]:
        """Pr(symbol s spans the first words | those words are a constituent)."""
        return normalised(
            (chain[len(prefix)], weight)
            for words, chain, weight in self.chains
            if words[: len(prefix)] == prefix and len(prefix) in chain
        )

    def root_posterior(self, sentence: Words) -> dict[str, float]:
        return normalised(
            (chain[len(words)], weight) for words, chain, weight in self.chains if words == sentence
        )


def normalised(weights: Iterable[tuple[str, float]]) -> dict[str, float]:
    totals: dict[str, float] = defaultdict(float)
    for symbol, weight in weights:
        totals[symbol] += weight
    return {symbol: weight / math.fsum(totals.values()) for symbol, weight in totals.items()}


def leftmost_chain(tree: Derivation) -> dict[int, str]:
    """The symbols that start the sentence, by their number of words; the lowest of a unit chain."""
    chain: dict[int, str] = {}
    node = tree
    while node.children:
        chain[len(node.words)] = node.label
        node = node.children[0]
    return chain


@cache
def enumerate_derivations(grammar: Grammar, maximum: int) -> Enumeration:
    @cache
    def symbol_trees(symbol: Symbol, length: int) -> list[tuple[Derivation, float]]:
        return [
            (Derivation(symbol.name, children), rule.probability * weight)
            for rule in grammar.rules
            if rule.left == symbol and rule.probability > 0
            for children, weight in side_trees(rule.right, length)
        ]

    @cache
    def side_trees(
        right: tuple[Symbol | str, ...], length: int
    ) -> list[tuple[tuple[Derivation, ...], float]]:
        if not right or length < len(right):
            return [((), 1.0)] if not right and length == 0 else []
        first, rest = right[0], right[1:]
        found = []
        for own in range(1, length - len(rest) + 1):
            if isinstance(first, str):
                heads = [(Derivation(first), 1.0)] if own == 1 else []
            else:
                heads = symbol_trees(first, own)
            if heads:
                for others, weight in side_trees(rest, length - own):
                    found += [((head, *others), head_weight * weight) for head, head_weight in heads]
        return found

    trees = [tree for length in range(1, maximum + 1) for tree in symbol_trees(grammar.start, length)]
    return Enumeration(grammar, maximum, tuple(trees))


def chi_square_passes(counts: Mapping[Any, int], expected: Mapping[Any, float]) -> bool:
    """Whether frequencies are below the 99.9 % point; cells of fewer than 5 expected are pooled."""
    assert set(counts) <= set(expected)
    cells = [(counts.get(cell, 0), mean) for cell, mean in expected.items() if mean >= 5]
    rest = math.fsum(mean for mean in expected.values() if mean < 5)
    if rest >= 5:
        cells.append((sum(counts.values()) - sum(seen for seen, _ in cells), rest))
    statistic = sum((seen - mean) ** 2 / mean for seen, mean in cells)
    return statistic <= chi2.ppf(0.999, max(1, len(cells) - 1))
