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
