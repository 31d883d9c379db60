"""What `isoloss describe` takes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from isoloss.command_line.options.language_file import LONGEST, LanguageFile, Longest, MaximumLength


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
