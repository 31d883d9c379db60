"""What `isoloss theory` takes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class TheoryOptions:
    """Compute the paper's lemmas and theorems, and say which of their statements hold.

    Results are kept: an interrupted call goes on with the statements that were not finished.

    Example: isoloss theory theorem-5.1 --length 10 --samples 8 --json
    """

    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]")] = None
    """One statement, such as lemma-3.2, theorem-3.3 or appendix-b.4; all when not given."""
    smoke: bool = False
    """A small size of everything, in seconds."""
    output: Path | None = None
    """Folder of the results, which `isoloss reproduce` shares; results/laptop when not given, with
    --smoke results/smoke. Statements go to its folder theory, pages to its site."""
    length: Annotated[int | None, tyro.conf.arg(metavar="T")] = None
    """Brackets of each string, for theorem-5.1 alone."""
    samples: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Downstream strings, for theorem-5.1 alone."""
    processes: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Statements side by side, one core each; when not given, one for each core."""
    json: bool = False
    """Print JSON on stdout: {"records": [...], "statements": [...], "failures": [...]}."""
