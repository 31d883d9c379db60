"""What `isoloss sample` takes."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from isoloss.command_line.options.language_file import LONGEST, LanguageFile, Longest, MaximumLength


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
