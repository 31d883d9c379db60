"""The sizes of random languages that `isoloss language` writes, as options."""

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from isoloss.command_line.options import refuse_below
from isoloss.languages.random_sizes import (
    refuse_impossible_grammar,
    refuse_impossible_hierarchy,
    refuse_impossible_hmm,
)

if TYPE_CHECKING:
    from isoloss.languages.hmm import HMM
    from isoloss.languages.pcfg import PCFG


@dataclass(frozen=True)
class GrammarSizes:
    """Of a random layered grammar."""

    words: int
    """Words of the language."""
    levels: int
    """Binary levels above the words; sentences have 2 to this power words."""
    symbols_per_level: int
    """Symbols of each level."""
    roots: int
    """Symbols that the start symbol rewrites to."""
    rules_per_symbol: int
    """Right sides of each symbol."""
    words_per_preterminal: int
    """Words of each symbol of the last level."""

    def language(self, seed: int) -> "PCFG":
        """The grammar drawn with this seed."""
        from isoloss.languages.pcfg import pcfg
        from isoloss.languages.random_grammar import random_layered_grammar

        return pcfg(random_layered_grammar(**asdict(self), seed=seed))


@dataclass(frozen=True)
class HierarchySizes:
    """Of a random hierarchy model: a layered grammar whose sentences have one tree each."""

    symbols_per_level: int
    """Symbols of each level."""
    words_per_preterminal: int
    """Words of each symbol of the last level, which no other has."""
    levels: int
    """Binary levels above the words; sentences have 2 to this power words."""
    rules_per_symbol: int
    """Right sides of each symbol, which no other has."""
    roots: int
    """Symbols that the start symbol rewrites to."""
    concentration: float
    """Dirichlet parameter of all probabilities; a large number makes rules equally likely."""

    def language(self, seed: int) -> "PCFG":
        """The grammar drawn with this seed."""
        from isoloss.languages.pcfg import pcfg
        from isoloss.languages.random_grammar import random_hierarchy_grammar

        return pcfg(random_hierarchy_grammar(**asdict(self), seed=seed))


@dataclass(frozen=True)
class HMMSizes:
    """Of a random hidden Markov model."""

    words: int
    """Words of the language."""
    states: int
    """Hidden states."""
    blocks: int
    """Equal blocks of states and words that never mix; 1 is dense."""
    length: int
    """Words of every sentence."""
    transition_concentration: float
    """Dirichlet parameter of the transitions; less than 1 makes few likely."""
    emission_concentration: float
    """Dirichlet parameter of the words of a state."""

    def language(self, seed: int) -> "HMM":
        """The model drawn with this seed."""
        from isoloss.languages.random_hmm import random_hmm

        return random_hmm(**asdict(self), seed=seed)


OF_A_HIERARCHY = HierarchySizes(3, 2, 3, 3, 3, 2.0)
"""Six words, and every pair of the three symbols of a level has a parent."""


def rules_of(sizes: GrammarSizes | HierarchySizes) -> int:
    """How many rules such a grammar has."""
    upper = sizes.roots + sizes.symbols_per_level * (sizes.levels - 1)
    return upper * sizes.rules_per_symbol + sizes.symbols_per_level * sizes.words_per_preterminal


def refuse_impossible_sizes(sizes: GrammarSizes | HierarchySizes | HMMSizes) -> None:
    """Raise BadInput for a number of words, states, ... below 1, and for sizes that make no language."""
    for field in fields(sizes):
        if field.type is int:
            refuse_below(1, getattr(sizes, field.name), f"--{field.name.replace('_', '-')}")
    match sizes:
        case GrammarSizes():
            refuse_impossible_grammar(**asdict(sizes))
        case HierarchySizes():
            refuse_impossible_hierarchy(**asdict(sizes))
        case HMMSizes():
            refuse_impossible_hmm(**asdict(sizes))
