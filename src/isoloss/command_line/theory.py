"""`isoloss theory`: the paper's lemmas and theorems, put to the test."""

from pathlib import Path
from typing import Annotated

import tyro


def theory(
    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]")] = None,
    /,
    smoke: bool = False,
    output: Path | None = None,
    length: Annotated[int | None, tyro.conf.arg(metavar="T")] = None,
    samples: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    processes: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    json: bool = False,
) -> int:
    """Compute the paper's lemmas and theorems, and say which of their statements hold.

    Results are kept: an interrupted call goes on with the statements that were not finished.

    Example: isoloss theory theorem-5.1 --length 10 --samples 8 --json

    Args:
        name: One statement, such as lemma-3.2, theorem-3.3 or appendix-b.4; all when not given.
        smoke: A small size of everything, in seconds.
        output: Folder of the results, which `isoloss reproduce` shares; results/laptop when not given, with
            --smoke results/smoke. Statements go to its folder theory, pages to its site.
        length: Brackets of each string, for theorem-5.1 alone.
        samples: Downstream strings, for theorem-5.1 alone.
        processes: Statements side by side, one core each; when not given, one for each core.
        json: Print JSON on stdout: {"records": [...], "statements": [...], "failures": [...]}.
    """
    # torch and scipy take seconds to import, which `--help` need not wait for.
    from isoloss.command_line.theory_request import TheoryRequest, run_theory

    return run_theory(TheoryRequest(name, smoke, output, length, samples, processes, json))
