"""What the commands on a language's file take, and the options that all of them have."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

LanguageFile = Annotated[
    tyro.conf.Positional[Path],
    tyro.conf.arg(help="A language's file: a grammar in NLTK's notation, or JSON; see `isoloss language`."),
]
MaximumLength = Annotated[
    int | None, tyro.conf.arg(metavar="N", help="Cut a grammar at sentences of N words.")
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
"""Sentences of one call; a larger number is a slip of the keyboard, and other seeds draw more."""


@dataclass(frozen=True)
class DescribeOptions:
    """Write a page about a language: sentences, probabilities as bars, entropy, tasks with room and price.

    Example: isoloss describe my.pcfg --out my.html
    """

    language: LanguageFile
    out: Path | None = None
    """The page, ending in .html; named for the language's file, in this folder, when not given.
    The bars' CSV, PNG and SVG are written beside it."""
    sentences: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Sentences behind each average; when not given 1000, or 100 of a causal language.
    Room is learnt from three times as many."""
    seed: int = 0
    """Seed of the draws; the same seed gives the same figures, but for times."""
    json: bool = False
    """Print all numbers as JSON."""
    maximum_length: MaximumLength = None
    longest: Longest = LONGEST


@dataclass(frozen=True)
class EntropyOptions:
    """Estimate the entropy of masked words and of next words, the least losses a model can reach.

    Example: isoloss entropy my.pcfg --sentences 10000 --seed 1 --json
    """

    language: LanguageFile
    sentences: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """How many sentences to draw; when not given 1000, or 100 of a causal language, whose masked
    distributions are costly and are taken at one position of each sentence, drawn at random."""
    seed: int = 0
    """Seed of the draws; the same seed gives the same figures."""
    json: bool = False
    """Print JSON: {"records": [...]}."""
    maximum_length: MaximumLength = None
    longest: Longest = LONGEST


@dataclass(frozen=True)
class ProbabilitiesOptions:
    """Show the exact probabilities of every word of a sentence: masked, and next.

    Example: isoloss probabilities my.pcfg --sentence "the cat sleeps" --json
    """

    language: LanguageFile
    sentence: str
    """The sentence, words separated by blanks."""
    json: bool = False
    """Print JSON with the probability of every word of the vocabulary."""
    maximum_length: MaximumLength = None
    longest: Longest = LONGEST


@dataclass(frozen=True)
class SampleOptions:
    """Draw sentences from a language, one a line.

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
    """Print JSON: {"sentences": [...]}, of trees with --trees."""
    maximum_length: MaximumLength = None
    longest: Longest = LONGEST
