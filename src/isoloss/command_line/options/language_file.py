"""Options of the commands on a language file, and those that all of them share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from isoloss.command_line.options.left_out import File, Number

LanguageFile = Annotated[
    tyro.conf.Positional[Path],
    tyro.conf.arg(
        metavar="LANGUAGE",
        help="A language's file: a grammar in NLTK's notation, or JSON; see `isoloss language`.",
    ),
]
MaximumLength = Annotated[
    int | None,
    tyro.conf.arg(metavar="N", help="Cut a grammar at sentences of N words.", help_behavior_hint=""),
]
LONGEST = 1000
Longest = Annotated[
    int,
    tyro.conf.arg(
        metavar="N",
        help="Refuse a language whose sentences may have more than N words: time and memory grow with the "
        "length, in a grammar with its cube.",
    ),
]
MOST_SENTENCES = 10_000_000
"""Most sentences of one call: a larger number is probably a typo, and other seeds can draw more."""


@dataclass(frozen=True)
class DescribeOptions:
    """Write a page about a language: sentences, charts of probabilities, entropy, tasks with room and price.

    Example: isoloss describe my.pcfg --out my.html
    """

    language: LanguageFile
    out: File = None
    """The page, ending in .html; by default named after the language file, in the current folder. The CSV,
    PNG and SVG of the charts are written beside it."""
    sentences: Number = None
    """Sentences per average; by default 1000, or 100 for a causal language. Room is estimated from three
    times as many."""
    seed: int = 0
    """Seed of the draws; the same seed gives the same numbers, except for times."""
    json: bool = False
    """Print all numbers as JSON."""
    maximum_length: MaximumLength = None
    longest: Longest = LONGEST


@dataclass(frozen=True)
class EntropyOptions:
    """Estimate the entropy of masked words and of next words, the lowest losses a model can reach.

    Example: isoloss entropy my.pcfg --sentences 10000 --seed 1 --json
    """

    language: LanguageFile
    sentences: Number = None
    """How many sentences to draw; by default 1000, or 100 for a causal language, whose masked distributions
    are expensive and are therefore computed at one random position per sentence."""
    seed: int = 0
    """Seed of the draws; the same seed gives the same numbers."""
    json: bool = False
    """Print JSON: {"records": [...]}."""
    maximum_length: MaximumLength = None
    longest: Longest = LONGEST


@dataclass(frozen=True)
class ProbabilitiesOptions:
    """Show the exact probability of every word of a sentence, as a masked word and as the next word.

    Example: isoloss probabilities my.pcfg --sentence "the cat sleeps" --json
    """

    language: LanguageFile
    sentence: str
    """The sentence, with its words separated by spaces."""
    json: bool = False
    """Print JSON with the probability of every word of the vocabulary."""
    maximum_length: MaximumLength = None
    longest: Longest = LONGEST


@dataclass(frozen=True)
class SampleOptions:
    """Sample sentences from a language, one per line.

    Example: isoloss sample my.pcfg --sentences 5 --trees
    """

    language: LanguageFile
    sentences: Annotated[int, tyro.conf.arg(metavar="N")] = 10
    """How many sentences to draw."""
    seed: int = 0
    """Seed of the draws; the same seed gives the same sentences."""
    trees: bool = False
    """Print each sentence's derivation tree, such as (S (A a) b); grammars only."""
    json: bool = False
    """Print JSON: {"sentences": [...]}, or trees with --trees."""
    maximum_length: MaximumLength = None
    longest: Longest = LONGEST
