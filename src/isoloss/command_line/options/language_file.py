"""The options that every command on a language's file has."""

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
