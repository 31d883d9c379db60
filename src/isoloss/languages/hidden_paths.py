"""Sentences drawn from a hidden Markov model, a whole batch at once, with the states that emitted them.

Every sentence has a key and is a function of its key alone, as in `sampling`: its states are drawn from the
key's first stream, its words from the second.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from isoloss.languages.alias_tables import AliasTables, Numbers, alias_tables
from isoloss.languages.sampling import CHUNK, GOLDEN, SECOND_STREAM, mixed, sentence_keys


@dataclass(frozen=True)
class PathTables:
    """Tables of the next state, one a state and after them that of the first state; tables of the word."""

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


def _tables(laws: NDArray[np.float64]) -> AliasTables:
    """One table a row, whose outcomes are the row's columns."""
    rows, columns = laws.shape
    choices = [list(range(row * columns, (row + 1) * columns)) for row in range(rows)]
    tables = alias_tables(choices, laws.reshape(-1))
    return replace(tables, outcome=tables.outcome % columns)
