"""What `isoloss language grammar-search` and `hmm-search` take."""

from dataclasses import dataclass
from typing import Annotated

import tyro


@dataclass(frozen=True)
class SearchedFor:
    """How many languages are judged, which of them are ranked, and how that is told."""

    search: Annotated[int, tyro.conf.arg(metavar="N")] = 1000
    """How many languages to judge, a seed each."""
    first_seed: int = 0
    """The first language's seed; the others follow."""
    cheapest: float = 0.0005
    """The least price in nats; this and the next bound are a half of 0.001 and twice 0.004."""
    dearest: float = 0.008
    """The highest price in nats."""
    least_room: float = 0.25
    """The least room."""
    most_chance: float = 0.5
    """The highest share of the most common label."""
    show: Annotated[int, tyro.conf.arg(metavar="N")] = 20
    """How many of the best to print; JSON has all."""
    json: bool = False
    """Print the ranking as JSON."""


@dataclass(frozen=True)
class GrammarSearchOptions:
    """Rank random layered grammars by the room of a task, among those whose price is within bounds.

    Room: what a linear probe on the words alone gets wrong. Price: what a model's loss gives up by
    ignoring the level of the tree that the label lives on. No model is trained: 1,000 grammars take minutes.

    Example: isoloss language grammar-search --search 200 --json
    """

    task: str | None = None
    """The task that is judged; that of the whole sentence's root when not given."""
    words: int = 6
    """Words of each language."""
    levels: int = 3
    """Binary levels above the words; sentences have 2 to this power words."""
    symbols_per_level: int = 3
    """Symbols of each level."""
    roots: int = 3
    """Symbols that the start symbol rewrites to."""
    rules_per_symbol: int = 5
    """Right sides of each symbol."""
    words_per_preterminal: int = 2
    """Words of each symbol of the last level."""
    asked: Annotated[SearchedFor, tyro.conf.arg(name="")] = SearchedFor()


@dataclass(frozen=True)
class HMMSearchOptions:
    """Rank random hidden Markov models by the room of a task, among those whose price is within bounds.

    Room: what a linear probe on the words alone gets wrong. Price: what a model's loss gives up by
    predicting every word from its two neighbours alone. No model is trained.

    Example: isoloss language hmm-search --search 100 --task state-3
    """

    task: str | None = None
    """The task that is judged; the state just after half of the words when not given."""
    words: int = 12
    """Words of each language."""
    states: int = 24
    """Hidden states."""
    blocks: int = 1
    """Equal blocks of states and words that never mix; 1 is dense."""
    length: int = 8
    """Words of every sentence."""
    transition_concentration: float = 0.15
    """Dirichlet parameter of the transitions; less than 1 makes few likely."""
    emission_concentration: float = 0.5
    """Dirichlet parameter of the words of a state."""
    asked: Annotated[SearchedFor, tyro.conf.arg(name="")] = SearchedFor()
