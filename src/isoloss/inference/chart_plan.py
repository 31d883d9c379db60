"""A grammar as tensors, in which every rule has two symbols or one word, and the plan of a chart of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class BinaryGrammar:
    """S symbols, R rules parent[r] -> left[r] right[r], and c words.

    `initial[A]` weighs A as the root, `weight[r]` rule r, `emission[A, w]` the rule A -> w. A sentence's
    weight is the sum over its derivations of the product of the weights used. All float64.
    """

    initial: Float[Tensor, " S"]
    parent: Int[Tensor, " R"]
    left: Int[Tensor, " R"]
    right: Int[Tensor, " R"]
    weight: Float[Tensor, " R"]
    emission: Float[Tensor, "S c"]

    @property
    def symbols(self) -> int:
        """S, the number of symbols."""
        return self.emission.shape[0]

    def length_weights(self, longest: int) -> Float[Tensor, "L S"]:
        """Weight of all word sequences of length l = 0..`longest` that each symbol derives; L = longest + 1.

        w_1[A] = Σ_w A -> w and w_l[A] = Σ_{A -> B C} p Σ_k w_k[B] w_{l-k}[C].

        >>> half = torch.tensor([0.5], dtype=torch.float64)
        >>> zero = torch.tensor([0])
        >>> BinaryGrammar(half * 2, zero, zero, zero, half, half[:, None]).length_weights(3)[:, 0].tolist()
        [0.0, 0.5, 0.125, 0.0625]
        """
        weights = torch.zeros(longest + 1, self.symbols, dtype=torch.float64)
        for length in range(1, longest + 1):
            if length == 1:
                weights[1] = self.emission.sum(1)
                continue
            halves = weights[1:length]
            pairs = torch.einsum("kr,kr->r", halves[:, self.left], halves.flip(0)[:, self.right])
            weights[length].index_add_(0, self.parent, pairs * self.weight)
        return weights

    def derivable_lengths(self, longest: int) -> Bool[Tensor, "L S"]:
        """Which of the lengths 0..`longest` each symbol derives: `length_weights` without underflow.

        >>> one = torch.ones(1, dtype=torch.float64)
        >>> empty = torch.zeros(0, dtype=torch.int64)
        >>> BinaryGrammar(one, empty, empty, empty, one[:0], one[:, None]).derivable_lengths(2)[:, 0].tolist()
        [False, True, False]
        """
        possible = torch.zeros(longest + 1, self.symbols, dtype=torch.bool)
        for length in range(1, longest + 1):
            if length == 1:
                possible[1] = (self.emission > 0).any(1)
                continue
            halves = possible[1:length]
            used = (halves[:, self.left] & halves.flip(0)[:, self.right]).any(0)
            possible[length, self.parent[used]] = True
        return possible

    def left_corners(self) -> Float[Tensor, "S S"]:
        """Weight with which A's leftmost part is B: Σ_C p(A -> B C), with any right part (they sum to 1)."""
        corners = torch.zeros(self.symbols, self.symbols, dtype=torch.float64)
        return corners.index_put((self.parent, self.left), self.weight, accumulate=True)


Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Level:
    """All spans of one length, with the symbols they can have and where they can start.

    A chart holds one tensor [len(symbols), len(starts), n] per level.
    """

    symbols: Int[Tensor, " s"]
    starts: range


@dataclass(frozen=True)
class Block:
    """The rules of a combination, grouped by their q distinct right-hand sides, which are pairs of symbols.

    `weights[a, q]` leads from pair q to parent a; `left_of` and `right_of` are 0/1 matrices that sum over
    pairs by their left and right symbols. Symbols are numbered within their levels.
    """

    parents: Int[Tensor, " a"]
    lefts: Int[Tensor, " q"]
    rights: Int[Tensor, " q"]
    weights: Float[Tensor, "a q"]
    left_symbols: Int[Tensor, " b"]
    left_of: Float[Tensor, "b q"]
    right_symbols: Int[Tensor, " d"]
    right_of: Float[Tensor, "d q"]


@dataclass(frozen=True)
class Combination:
    """Spans of `length` split into `left_length` words and the rest; slices are places in the levels."""

    length: int
    left_length: int
    parent_places: slice
    left_places: slice
    right_places: slice
    block: Block


@dataclass(frozen=True)
class ChartPlan:
    """The levels by length, and the combinations from short to long, for sentences of T words."""

    words: int
    levels: dict[int, Level]
    combinations: tuple[Combination, ...]

    @property
    def numbers_per_sentence(self) -> int:
        """Float64 values per sentence: an inside chart, an outside chart and the largest combination."""
        chart = sum(len(level.symbols) * len(level.starts) for level in self.levels.values())
        places = (
            len(range(c.parent_places.stop)[c.parent_places]) * len(c.block.lefts) for c in self.combinations
        )
        return 2 * chart + 4 * max(places, default=0)


def sentence_plan(grammar: BinaryGrammar, words: int, roots: Bool[Tensor, " S"]) -> ChartPlan:
    """Plan for whole sentences of `words` words whose root is one of `roots`.

    A span is visited only if some symbol derives its length and some derivation of the whole sentence
    contains it: in a layered grammar of full length, these are the 2T - 1 spans of the tree.

    >>> one, zero = torch.ones(1, dtype=torch.float64), torch.tensor([0])
    >>> grammar = BinaryGrammar(one, zero, zero, zero, one / 2, one[:, None] / 2)
    >>> plan = sentence_plan(grammar, 3, torch.tensor([True]))
    >>> {length: level.starts for length, level in plan.levels.items()}
    {1: range(0, 3), 2: range(0, 2), 3: range(0, 1)}
    """
    rules = _Rules(grammar, words)
    alive = {length: np.zeros((grammar.symbols, words - length + 1), bool) for length in range(1, words + 1)}
    alive[words][:, 0] = roots.numpy() & rules.derivable[words]
    for length in range(words, 1, -1):
        count = words - length + 1
        for used, lefts in rules.splits(alive[length], length):
            places = alive[length][rules.parent[used]].astype(np.float32)
            of_left, of_right = rules.has_left[:, used] @ places > 0, rules.has_right[:, used] @ places > 0
            for left in lefts:
                alive[left][:, :count] |= of_left
                alive[length - left][:, left : left + count] |= of_right
    return _plan(rules, alive)


def prefix_plan(grammar: BinaryGrammar, words: int) -> ChartPlan:
    """Plan for all spans within the first `words` words of sentences of any length.

    >>> one, zero = torch.ones(1, dtype=torch.float64), torch.tensor([0])
    >>> plan = prefix_plan(BinaryGrammar(one, zero, zero, zero, one / 2, one[:, None] / 2), 2)
    >>> {length: level.starts for length, level in plan.levels.items()}
    {1: range(0, 2), 2: range(0, 1)}
    """
    rules = _Rules(grammar, words)
    starting = np.zeros((words + 1, grammar.symbols), bool)
    starting[0] = (grammar.initial > 0).numpy()
    for place in range(words):
        starting[place] = rules.with_left_corners(starting[place])
        parents = starting[place][rules.parent]
        for length in range(1, words - place + 1):
            starting[place + length, rules.right[parents & rules.derivable[length][rules.left]]] = True
    return _plan(
        rules,
        {
            length: starting[: words - length + 1].T & rules.derivable[length][:, None]
            for length in range(1, words + 1)
        },
    )


class _Rules:
    """The grammar's rules as numpy arrays, with the queries needed for planning."""

    def __init__(self, grammar: BinaryGrammar, words: int) -> None:
        self.words = words
        self.parent, self.left, self.right = (
            t.numpy() for t in (grammar.parent, grammar.left, grammar.right)
        )
        self.weight = grammar.weight
        self.derivable = grammar.derivable_lengths(words).numpy()
        symbols = np.arange(grammar.symbols)[:, None]
        self.has_left = (self.left == symbols).astype(np.float32)
        self.has_right = (self.right == symbols).astype(np.float32)

    def splits(self, alive: Mask, length: int) -> Iterator[tuple[Numbers, list[int]]]:
        """Rules that can form a live span of `length`, each set once, with all numbers of words to the left.

        A recursive grammar has few such sets, since most lengths are derived by the same symbols.
        """
        live = np.flatnonzero(_any(alive, 1)[self.parent])
        from_left = self.derivable[1:length, self.left[live]]
        usable = from_left & self.derivable[length - 1 : 0 : -1, self.right[live]]
        rows = np.flatnonzero(_any(usable, 1))
        if rows.size:
            sets, which = np.unique(usable[rows], axis=0, return_inverse=True)
            for number, used in enumerate(sets):
                yield live[used], (1 + rows[which.reshape(-1) == number]).tolist()

    def with_left_corners(self, symbols: Mask) -> Mask:
        while True:
            more = symbols.copy()
            more[self.left[symbols[self.parent]]] = True
            if np.array_equal(more, symbols):
                return more
            symbols = more


def _plan(rules: _Rules, alive: dict[int, Mask]) -> ChartPlan:
    """Group live spans into levels, and rules into combinations that share blocks of equal shape."""
    levels = {
        length: Level(torch.from_numpy(np.flatnonzero(_any(mask, 1))), _covering(_any(mask, 0)))
        for length, mask in alive.items()
        if mask.any()
    }
    names = {length: level.symbols.numpy().tobytes() for length, level in levels.items()}
    blocks: dict[tuple[bytes, ...], Block] = {}
    combinations = []
    for length in sorted(levels):
        splits = []
        for used, lefts in rules.splits(alive[length], length):
            starts = _covering(_any(alive[length][rules.parent[used]], 0))
            splits += [(left, used, starts) for left in lefts]
        for left, used, starts in sorted(splits, key=itemgetter(0)):
            parts = levels[length], levels[left], levels[length - left]
            key = used.tobytes(), names[length], names[left], names[length - left]
            if key not in blocks:
                blocks[key] = _block(rules, used, *parts)
            combinations.append(
                Combination(
                    length,
                    left,
                    parent_places=_places(starts, parts[0]),
                    left_places=_places(starts, parts[1]),
                    right_places=_places(starts, parts[2], left),
                    block=blocks[key],
                )
            )
    return ChartPlan(rules.words, levels, tuple(combinations))


def _any(mask: Mask, axis: int) -> Mask:
    return np.asarray(mask.any(axis))


def _covering(mask: Mask) -> range:
    """The shortest arithmetic progression that covers every true position.

    Any other positions it covers are computed needlessly but never used: no live span is built from them.
    """
    places = np.flatnonzero(mask)
    step = int(np.gcd.reduce(np.diff(places))) if len(places) > 1 else 1
    return range(int(places[0]), int(places[-1]) + 1, step)


def _places(starts: range, level: Level, offset: int = 0) -> slice:
    """Where spans that start at `starts` + `offset` are in their level."""
    first = (starts[0] + offset - level.starts[0]) // level.starts.step
    step = max(1, starts.step // level.starts.step)
    return slice(first, first + (len(starts) - 1) * step + 1, step)


def _block(rules: _Rules, used: Numbers, parent: Level, left: Level, right: Level) -> Block:
    pairs, pair = np.unique(np.stack([rules.left[used], rules.right[used]]), axis=1, return_inverse=True)
    parents, row = np.unique(rules.parent[used], return_inverse=True)
    weights = torch.zeros(len(parents), pairs.shape[1], dtype=torch.float64)
    places = torch.from_numpy(row.reshape(-1)), torch.from_numpy(pair.reshape(-1))
    weights.index_put_(places, rules.weight[torch.from_numpy(used)], accumulate=True)
    lefts, left_of = _collecting(pairs[0])
    rights, right_of = _collecting(pairs[1])
    return Block(
        parents=_within(parent, parents),
        lefts=_within(left, pairs[0]),
        rights=_within(right, pairs[1]),
        weights=weights,
        left_symbols=_within(left, lefts),
        left_of=left_of,
        right_symbols=_within(right, rights),
        right_of=right_of,
    )


def _collecting(symbols: Numbers) -> tuple[Numbers, Tensor]:
    distinct = np.unique(symbols)
    return distinct, torch.from_numpy(symbols == distinct[:, None]).double()


def _within(level: Level, symbols: Numbers) -> Tensor:
    return torch.from_numpy(np.searchsorted(level.symbols.numpy(), symbols))
