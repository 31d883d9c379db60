"""Sentences and derivation trees drawn from a grammar's rules, a whole batch at once; HMMs' too.

Every sentence has a key, and is a function of its key alone: its derivation is drawn leftmost first, step
k from the k-th number of the key's SplitMix64 stream (Steele, Lea and Flood 2014), and its words, all at
the end, from a second stream, the word at t from the t-th number. A sentence that becomes too long goes
back to its start symbol and on with its stream, which is rejection.

Of a hidden Markov model, the states are drawn from the key's first stream, the words from the second.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from isoloss.languages.grammar import Grammar, Symbol
from isoloss.languages.language import Derivation
from isoloss.languages.rule_tables import END, AliasTables, Bits, Numbers, RuleTables, alias_tables
from isoloss.languages.sentences import PADDING, Sentences
from isoloss.seeds import GOLDEN, mixed

CHUNK = 16384
"""Sentences drawn at a time: many, to spread the cost of a step; not more, for the processor's cache."""

SECOND_STREAM = np.uint64(0xD1B54A32D192ED03)

_FIRST_ROOM = 32
_SPARE = 3


@dataclass(frozen=True)
class Step:
    """One step of many derivations: `rules[i]` was applied in sentence `rows[i]`.

    After it, there are `words[i]` words, and `waiting[i]` items are deferred, including the sentinel.
    `restarted` lists the indices i that became too long and start over.
    """

    rows: Numbers
    rules: Numbers
    words: Numbers
    waiting: Numbers
    restarted: Numbers


class Derivations:
    """Leftmost derivations of one sentence per key, without words: iterate to draw them step by step.

    Afterwards `slots[t, i]` is the item that becomes word t of sentence i, and `lengths[i]` its length.
    What a step yields is valid until the next one.
    """

    def __init__(self, tables: RuleTables, keys: Bits, maximum: int | None) -> None:
        self.tables, self.keys, self.maximum = tables, keys, maximum
        room = _FIRST_ROOM if maximum is None else min(maximum, _FIRST_ROOM)
        self.slots = np.full((room + _SPARE, len(keys)), END, np.int32)
        self.lengths = np.zeros(len(keys), np.int64)
        # At the bottom of every stack is END, taken when nothing waits any more.
        self._stacks = np.full_like(self.slots, END)

    def __iter__(self) -> Iterator[Step]:
        tables = self.tables
        rows, stream = np.arange(len(self.keys)), self.keys.copy()
        items, words, waiting = np.full(len(rows), tables.start), np.zeros_like(rows), np.ones_like(rows)
        while len(rows):
            stream += GOLDEN
            rules = tables.rules.draw(items, mixed(stream))
            slots, stacks = self.slots.reshape(-1), self._stacks.reshape(-1)
            place = words * len(self.keys) + rows
            slots[place] = tables.first_slot[rules]
            place += len(self.keys)
            slots[place] = tables.second_slot[rules]
            words += tables.slot_count[rules]
            stacks[waiting * len(self.keys) + rows] = tables.waiting_item[rules]
            waiting += tables.waiting_change[rules]
            items = tables.next_item[rules]
            taken = stacks[waiting * len(self.keys) + rows]
            items ^= (items ^ taken) & (
                items >> 63
            )  # where(items < 0, taken, items), which is slow because it branches
            too_long = self._make_room(words + waiting)
            if len(too_long):
                self.slots[:, rows[too_long]] = END
                items[too_long], words[too_long], waiting[too_long] = tables.start, 0, 1
            yield Step(rows, rules, words, waiting, too_long)
            ended = items == END
            if np.count_nonzero(ended) * 4 >= len(rows):
                self.lengths[rows[ended]] = words[ended]
                going = np.flatnonzero(~ended)
                rows, stream, items = rows[going], stream[going], items[going]
                words, waiting = words[going], waiting[going]

    def word_rules(self) -> Numbers:
        """The index of the rule that produced every word, [T, n]; meaningless after a sentence's end."""
        slots = self.slots[: self.lengths.max(initial=0)].astype(np.int64)
        stream = mixed(self.keys ^ SECOND_STREAM)
        rules = np.empty_like(slots)
        for place in range(len(slots)):
            stream += GOLDEN
            rules[place] = self.tables.word_rules.draw(slots[place], mixed(stream))
        return rules

    def _make_room(self, needed: Numbers) -> Numbers:
        """Widen slots and stacks up to the maximum; returns the indices of sentences that are too long."""
        room = len(self.slots) - _SPARE
        longest = int(needed.max())
        if longest <= room:
            return needed[:0]
        wider = 2 * longest if self.maximum is None else min(2 * longest, self.maximum)
        if wider > room:
            padding = ((0, wider - room), (0, 0))
            self.slots = np.pad(self.slots, padding, constant_values=END)
            self._stacks = np.pad(self._stacks, padding, constant_values=END)
        return np.flatnonzero(needed > wider)


def sentence_keys(n: int, generator: torch.Generator) -> Bits:
    """One key per sentence, independent of how calls are split."""
    numbers = torch.randint(-(2**63), 2**63 - 1, (n,), generator=generator, dtype=torch.int64)
    return numbers.numpy().view(np.uint64)


def sample_sentences(
    tables: RuleTables, maximum: int | None, n: int, generator: torch.Generator
) -> Sentences:
    """Draw n sentences of at most `maximum` words, padded to it, or to the longest if there is none."""
    keys = sentence_keys(n, generator)
    chunks = []
    for start in range(0, n, CHUNK):
        derivations = Derivations(tables, keys[start : start + CHUNK], maximum)
        for _ in derivations:
            pass
        chunks.append((tables.word[derivations.word_rules()], derivations.lengths))
    return padded_sentences(chunks, maximum)


def padded_sentences(chunks: list[tuple[Numbers, Numbers]], maximum: int | None) -> Sentences:
    """One batch from chunks of words [T, n] and lengths, padded to `maximum` words or to the longest."""
    width = max((len(words) for words, _ in chunks), default=0) if maximum is None else maximum
    ids = torch.full((sum(len(lengths) for _, lengths in chunks), width), PADDING)
    row = 0
    for words, lengths in chunks:
        ids[row : row + len(lengths), : len(words)] = torch.from_numpy(words).T
        row += len(lengths)
    lengths = np.concatenate([lengths for _, lengths in chunks] or [np.zeros(0, np.int64)])
    return Sentences(ids, torch.from_numpy(lengths))


@dataclass(frozen=True)
class PathTables:
    """Tables of the next state, one per state followed by that of the first state, and tables of the word."""

    next_state: AliasTables
    word: AliasTables
    states: int


def path_tables(
    initial: NDArray[np.float64], transition: NDArray[np.float64], emission: NDArray[np.float64]
) -> PathTables:
    """Tables of a chain of S states: `initial` [S], `transition` [S, S], `emission` [S, c].

    >>> path_tables(np.ones(1), np.ones((1, 1)), np.array([[0.25, 0.75]])).states
    1
    """
    return PathTables(_tables(np.vstack([transition, initial])), _tables(emission), len(initial))


def sample_paths(
    tables: PathTables, length: int, n: int, generator: torch.Generator
) -> tuple[Int[Tensor, "n T"], Int[Tensor, "n T"]]:
    """Words and states of n sentences of `length` words."""
    words, states = np.empty((2, length, n), np.int64)
    keys = sentence_keys(n, generator)
    for start in range(0, n, CHUNK):
        rows = slice(start, start + CHUNK)
        stream, second_stream = keys[rows].copy(), mixed(keys[rows] ^ SECOND_STREAM)
        state: Numbers = np.full(len(stream), tables.states)
        for t in range(length):
            stream += GOLDEN
            state = tables.next_state.draw(state, mixed(stream))
            states[t, rows] = state
            second_stream += GOLDEN
            words[t, rows] = tables.word.draw(state, mixed(second_stream))
    return torch.from_numpy(words).T.contiguous(), torch.from_numpy(states).T.contiguous()


def _tables(distributions: NDArray[np.float64]) -> AliasTables:
    """One table per row, whose outcomes are the row's columns."""
    rows, columns = distributions.shape
    choices = [list(range(row * columns, (row + 1) * columns)) for row in range(rows)]
    tables = alias_tables(choices, distributions.reshape(-1))
    return replace(tables, outcome=tables.outcome % columns)


def derivation_trees(grammar: Grammar, derivations: Derivations) -> list[Derivation]:
    """Draw `derivations` and build their trees; `grammar` is the grammar they are drawn from."""
    chosen: list[list[int]] = [[] for _ in derivations.keys]
    for step in derivations:
        for row, rule in zip(step.rows.tolist(), step.rules.tolist(), strict=True):
            if rule < len(grammar.rules):
                chosen[row].append(rule)
        for row in step.rows[step.restarted].tolist():
            chosen[row].clear()
    words = derivations.word_rules().T.tolist()
    return [_tree(grammar, rules, of_words) for rules, of_words in zip(chosen, words, strict=True)]


def _tree(grammar: Grammar, rules: list[int], word_rules: list[int]) -> Derivation:
    """Build a tree from its rules, leftmost first; rules for single words are indexed by position.

    An open node is a pair of its label and the children found so far.
    """
    structure = iter(rules)
    place = 0
    root: tuple[str, list[Derivation]] = ("", [])
    open_parts = [root]
    pending: list[Symbol | str | None] = [grammar.start]
    while pending:
        item = pending.pop()
        if item is None:
            label, children = open_parts.pop()
            open_parts[-1][1].append(Derivation(label, tuple(children)))
        elif isinstance(item, str):
            open_parts[-1][1].append(Derivation(item))
            place += 1
        else:
            alone = place < len(word_rules) and word_rules[place] < len(grammar.rules)
            by_word = alone and grammar.rules[word_rules[place]].left == item
            right = grammar.rules[word_rules[place] if by_word else next(structure)].right
            open_parts.append((item.name, []))
            pending.extend([None, *reversed(right)])
    return root[1][0]
