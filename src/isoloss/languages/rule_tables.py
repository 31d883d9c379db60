"""A grammar's rules as arrays, and Walker's alias tables, for sampling rules of many sentences at once."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isoloss.languages.grammar import Grammar, Right, Symbol
from isoloss.languages.sentences import PADDING

Numbers = NDArray[np.int64]
Bits = NDArray[np.uint64]

CHANCE_BITS = 40
"""A table's column is chosen by a number's high bits, and one of its two outcomes by the low 40."""


@dataclass(frozen=True)
class AliasTables:
    """For each item a table of 2^k columns of two outcomes each (Walker 1977)."""

    first_column: Numbers
    shift: Bits
    threshold: Bits
    outcome: Numbers

    def draw(self, items: Numbers, bits: Bits) -> Numbers:
        """One outcome for each item, from 64 random bits each."""
        column = (bits >> self.shift[items]).view(np.int64)
        column += self.first_column[items]
        above = (bits & np.uint64((1 << CHANCE_BITS) - 1)) >= self.threshold[column]
        column *= 2
        column += above
        return self.outcome[column]


def alias_tables(choices: list[list[int]], weights: NDArray[np.float64]) -> AliasTables:
    """One table per list of outcomes, which are drawn in proportion to their weights, exact to 2^-40.

    Of a table's 2^k >= 2 columns, each with too little weight is filled up from one with too much.

    >>> tables = alias_tables([[0, 1], [2, 3]], np.array([1.0, 0.0, 0.25, 0.75]))
    >>> tables.draw(np.array([0, 1, 1]), np.array([2**63, 2**20, 2**63], np.uint64)).tolist()
    [0, 2, 3]
    """
    first, shift, thresholds, outcomes = [], [], [], []
    columns = 0
    for outcome in choices:
        bits = max(1, (len(outcome) - 1).bit_length())
        share, own, other = _alias_table(weights[outcome], 1 << bits)
        first.append(columns)
        shift.append(64 - bits)
        numbers = np.array([*outcome, *[outcome[0]] * ((1 << bits) - len(outcome))])
        thresholds.append(np.round(share * 2.0**CHANCE_BITS).astype(np.uint64))
        outcomes.append(np.stack([numbers[own], numbers[other]], 1).reshape(-1))
        columns += 1 << bits
    return AliasTables(
        np.array(first), np.array(shift, np.uint64), np.concatenate(thresholds), np.concatenate(outcomes)
    )


def _alias_table(
    weights: NDArray[np.float64], columns: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """For each column the share of its outcome, that outcome, and the other one (Vose 1991)."""
    total = weights.sum()
    share = np.zeros(columns)
    share[: len(weights)] = weights * (columns / total) if total > 0 else columns / len(weights)
    other = np.arange(columns)
    small = [column for column in range(columns) if share[column] < 1]
    large = [column for column in range(columns) if share[column] >= 1]
    while small and large:
        poor, rich = small.pop(), large[-1]
        other[poor] = rich
        share[rich] -= 1 - share[poor]
        if share[rich] < 1:
            small.append(large.pop())
    for column in [*small, *large]:
        # Only rounding leaves these: a column without any weight must still never be drawn.
        if column < len(weights) and weights[column] > 0:
            share[column] = 1
    return share, np.arange(columns), other


Item = Symbol | str | Right

END = 0
STAY = (END, END, 0, END, END, 0)


@dataclass(frozen=True)
class RuleTables:
    """Rules as steps: rule r fills 0, 1 or 2 slots, and continues with an item or takes a waiting one.

    A slot is an item that becomes one word: a symbol whose rules all give single words, or a word of a longer
    right side. An item is a symbol, such a word, the remainder of a long right side, or the end (item 0),
    which stays in place and represents nothing. The grammar's rules keep their numbers, followed by the
    single rule of each other item.
    """

    start: int
    rules: AliasTables
    first_slot: NDArray[np.int32]
    second_slot: NDArray[np.int32]
    slot_count: Numbers
    next_item: Numbers  # -1: take a waiting one
    waiting_item: NDArray[np.int32]
    waiting_change: Numbers
    word_rules: AliasTables
    word: Numbers  # of every rule, PADDING if it has no single word


def rule_tables(grammar: Grammar) -> RuleTables:
    """Tables of a grammar whose probabilities sum to 1 for every symbol that can come up.

    >>> from isoloss.languages.notation import parse_grammar
    >>> tables = rule_tables(parse_grammar("S -> 'a' S [0.25] | 'b' [0.75]"))
    >>> tables.slot_count.tolist()[:2], tables.waiting_change.tolist()[:2]
    ([1, 1], [0, -1])
    """
    single = _symbols_of_single_words(grammar)
    items: dict[Item, int] = {(): END}
    items.update({symbol: number for number, symbol in enumerate(grammar.symbols, start=1)})
    right_sides: list[Right] = [rule.right for rule in grammar.rules]

    def number_of(item: Item) -> int:
        return items.setdefault(item, len(items))

    steps = [_step(right, single, number_of) for right in right_sides]
    own: dict[Item, list[int]] = defaultdict(list)
    for number, rule in enumerate(grammar.rules):
        own[rule.left].append(number)
    rules, word_rules = [], []
    for item in _growing(items):
        word_rules.append(own.get(item) or [len(steps)])
        if item in own and item not in single:
            rules.append(own[item])
        else:
            rules.append([len(steps)])
            right_sides.append(item if isinstance(item, tuple) else (item,))
            steps.append(_step(right_sides[-1], single, number_of) if item else STAY)
    numbers = {word: number for number, word in enumerate(grammar.words)}
    words = [numbers[r[0]] if len(r) == 1 and isinstance(r[0], str) else PADDING for r in right_sides]
    weights = np.ones(len(steps))
    weights[: len(grammar.rules)] = [rule.probability for rule in grammar.rules]
    first, second, count, following, waiting, change = (
        np.array(column) for column in zip(*steps, strict=True)
    )
    return RuleTables(
        start=items[grammar.start],
        rules=alias_tables(rules, weights),
        first_slot=first.astype(np.int32),
        second_slot=second.astype(np.int32),
        slot_count=count,
        next_item=following,
        waiting_item=waiting.astype(np.int32),
        waiting_change=change,
        word_rules=alias_tables(word_rules, weights),
        word=np.array(words),
    )


def _symbols_of_single_words(grammar: Grammar) -> set[Symbol]:
    others = {rule.left for rule in grammar.rules if len(rule.right) > 1 or isinstance(rule.right[0], Symbol)}
    return set(grammar.symbols) - others


def _growing(items: dict[Item, int]) -> Iterator[Item]:
    """Iterates over all items, including those added during the iteration."""
    done = 0
    while done < len(items):
        fresh = list(items)[done:]
        yield from fresh
        done += len(fresh)


def _step(
    right: Right, single: set[Symbol], number_of: Callable[[Item], int]
) -> tuple[int, int, int, int, int, int]:
    """First and second slot, their count, next item, waiting item, change in the number of waiting items."""
    leading = 0
    while leading < min(2, len(right)) and (isinstance(right[leading], str) or right[leading] in single):
        leading += 1
    slots = [number_of(item) for item in right[:leading]] + [END, END]
    rest = right[leading:]
    if not rest:
        return slots[0], slots[1], leading, -1, END, -1
    if len(rest) == 1:
        return slots[0], slots[1], leading, number_of(rest[0]), END, 0
    return (
        slots[0],
        slots[1],
        leading,
        number_of(rest[0]),
        number_of(rest[1] if len(rest) == 2 else rest[1:]),
        1,
    )
