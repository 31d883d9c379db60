"""Whether all derivations terminate, and probabilities with which they do."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from isoloss.errors import BadInput
from isoloss.languages.derivations import (
    able_to_end,
    longest_sentence,
    symbols_in,
    used_rules,
)
from isoloss.languages.grammar import Grammar, Rule, Symbol

CRITICAL = 1 - 1e-9
"""From this growth rate on, the expected length counts as infinite (exactly 1 is the critical case)."""
NEARLY_THERE = 1e-7
"""A step of Newton's method, as a share: rounding errors of a solution that is hardly one are as large."""


def check_terminates(grammar: Grammar) -> None:
    """Refuse, with BadInput, a grammar whose sentences have no finite expected length.

    That is one with a symbol that can never end, or with symbols that reproduce themselves at a growth
    rate (the spectral radius of their mean numbers of children) of 1 or more.

    >>> from isoloss.languages.notation import parse_grammar
    >>> check_terminates(parse_grammar("S -> S S [0.5] | 'a' [0.5]"))
    Traceback (most recent call last):
    isoloss.errors.BadInput: the grammar, line 1: S has an infinite expected length; ... give a maximum length
    """
    able = able_to_end(grammar)
    for rule in grammar.rules:
        if rule.left not in able:
            raise BadInput(
                f"{grammar.place(rule)}: {rule.left.name} can never end in words; "
                "give it a rule that ends, or give a maximum length"
            )
    if longest_sentence(grammar) is not None:
        return
    from scipy.sparse.csgraph import connected_components  # few grammars are recursive

    rules = used_rules(grammar)
    place, children, _ = _mean_numbers(rules)
    count, component = connected_components(children > 0, connection="strong")
    for number in range(count):
        inside = np.flatnonzero(component == number)
        growth = max(abs(np.linalg.eigvals(children[np.ix_(inside, inside)])))
        if growth >= CRITICAL:
            rule = next(rule for rule in rules if place[rule.left] in inside)
            raise BadInput(
                f"{grammar.place(rule)}: {rule.left.name} has an infinite expected length; "
                "make the rules that lead back to it less probable, or give a maximum length"
            )


def expected_length(grammar: Grammar) -> float:
    """The mean number of words of a sentence, of a grammar whose probabilities sum to 1, recursive or not.

    The solution of n_A = Σ_rules p (words + Σ n of the symbols), over `used_rules`. Infinite where there is
    none without negative numbers, and where no derivation ends.

    >>> from isoloss.languages.notation import parse_grammar
    >>> round(expected_length(parse_grammar("S -> 'a' S [0.9] | 'b' [0.1]")), 9)
    10.0
    >>> expected_length(parse_grammar("S -> S S [0.9] | 'b' [0.1]"))
    inf
    """
    place, children, words = _mean_numbers(used_rules(grammar))
    try:
        lengths = np.linalg.solve(np.eye(len(place)) - children, words)
    except np.linalg.LinAlgError:
        return math.inf
    if grammar.start not in place or lengths.min() < 0:
        return math.inf
    return float(lengths[place[grammar.start]])


def _mean_numbers(
    rules: Sequence[Rule],
) -> tuple[dict[Symbol, int], NDArray[np.float64], NDArray[np.float64]]:
    """Each symbol's row, the mean numbers of its children of each kind, and of the words beside them."""
    place = {symbol: row for row, symbol in enumerate(dict.fromkeys(rule.left for rule in rules))}
    children, words = np.zeros((len(place), len(place))), np.zeros(len(place))
    for rule in rules:
        for item in rule.right:
            if isinstance(item, Symbol):
                children[place[rule.left], place[item]] += rule.probability
            else:
                words[place[rule.left]] += rule.probability
    return place, children, words


def proper_grammar(grammar: Grammar) -> tuple[Grammar, float]:
    """The grammar with the same relative weights whose probabilities sum to 1, and the start's Z.

    With Z_A the weight of all derivations of A (the least solution of Z_A = Σ_rules p Π Z), a rule gets p Π Z
    / Z_A (Chi 1999): along a complete derivation all Zs cancel except the start's, so a sentence's weight as
    written is its probability times that Z. Nothing is changed, and Z is 1, if the probabilities already sum
    to 1 within 1e-12 and every symbol can terminate.

    >>> from isoloss.languages.notation import parse_grammar
    >>> proper, z = proper_grammar(parse_grammar("S -> 'a' [0.5] | 'b' [0.4998]"))
    >>> round(z, 6), [round(rule.probability, 6) for rule in proper.rules]
    (0.9998, [0.5001, 0.4999])
    """
    able = able_to_end(grammar)
    sums: dict[Symbol, float] = defaultdict(float)
    for rule in grammar.rules:
        sums[rule.left] += rule.probability
    if len(able) == len(sums) and all(abs(total - 1) <= 1e-12 for total in sums.values()):
        return grammar, 1.0
    z = _partition_functions(grammar, able)
    rules = (replace(rule, probability=_rescaled(rule, z)) for rule in grammar.rules)
    return replace(grammar, rules=tuple(rules)), z.get(grammar.start, 0.0)


def _rescaled(rule: Rule, z: dict[Symbol, float]) -> float:
    weight = z.get(rule.left, 0.0)
    return (
        rule.probability * math.prod(z.get(child, 0.0) for child in symbols_in(rule.right)) / weight
        if weight
        else 0.0
    )


def _partition_functions(grammar: Grammar, able: set[Symbol]) -> dict[Symbol, float]:
    """Newton's method from zero, which climbs to the least solution (Etessami & Yannakakis 2009).

    It ends where steps are too small to show, or no longer become smaller, since they are rounding errors.
    """
    names = [symbol for symbol in grammar.symbols if symbol in able]
    place = {symbol: number for number, symbol in enumerate(names)}
    rules = [
        (place[rule.left], [place[child] for child in symbols_in(rule.right)], rule.probability)
        for rule in grammar.rules
        if rule.probability > 0 and set(symbols_in(rule.right)) <= able
    ]
    z, before = np.zeros(len(names)), math.inf
    for _ in range(1000):
        value, slope = np.zeros(len(names)), np.zeros((len(names), len(names)))
        for left, parts, probability in rules:
            value[left] += probability * math.prod(z[parts])
            for n, part in enumerate(parts):
                slope[left, part] += probability * math.prod(z[parts[:n] + parts[n + 1 :]])
        try:
            step = np.linalg.solve(np.eye(len(names)) - slope, value - z)
        except np.linalg.LinAlgError:
            break
        z = z + step
        if not (np.isfinite(z).all() and (z >= 0).all()):
            break
        size, largest = abs(step).max(), abs(z).max()
        if size <= 1e-15 * largest or before <= size <= NEARLY_THERE * largest:
            return dict(zip(names, z.tolist(), strict=True))
        before = size
    raise BadInput(
        f"{grammar.source}: its probabilities sum to more than 1 and its recursion never dies out; "
        "make every symbol's probabilities sum to 1"
    )
