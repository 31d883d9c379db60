"""What `isoloss entropy` takes."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from isoloss.command_line.options.language_file import LONGEST, LanguageFile, Longest, MaximumLength


@dataclass(frozen=True)
class EntropyOptions:
    """Estimate the entropy of masked words and of next words, the least losses a model can reach.

    Example: isoloss entropy my.pcfg --sentences 10000 --seed 1 --json
    """

    language: LanguageFile
    sentences: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """How many sentences to draw; when not given 1000, or 100 of a causal language, whose masked
    laws are costly and are taken at one position of each sentence, drawn at random."""
    seed: int = 0
    """Seed of the draws; the same seed gives the same figures."""
    json: bool = False
    """Print JSON: {"records": [...]}."""
    maximum_length: MaximumLength = None
    longest: Longest = LONGEST
