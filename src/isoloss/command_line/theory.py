"""`isoloss theory`: the paper's lemmas and theorems, computed."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from isoloss.command_line.options import Folder, Number, refuse_below
from isoloss.command_line.terminal import starting
from isoloss.errors import BadInput
from isoloss.files import refuse_file_as_folder
from isoloss.languages.bracket_strings import refuse_unbalanced
from isoloss.theory.statement_names import statements_named

SIZED = "theorem-5.1"
"""The statement whose size may be chosen."""


@dataclass(frozen=True)
class TheoryOptions:
    """Compute what the paper's lemmas and theorems state, and report which statements hold.

    Results are cached: after an interruption, the same command resumes with the unfinished statements.

    Example: isoloss theory theorem-5.1 --length 10 --samples 8 --json
    """

    name: Annotated[
        str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]", help_behavior_hint="")
    ] = None
    """One statement, such as lemma-3.2, theorem-3.3 or appendix-b.4; all by default."""
    smoke: bool = False
    """Use small sizes throughout; takes seconds."""
    output: Folder = None
    """Folder of the results, shared with `isoloss reproduce`; results/laptop by default, or results/smoke
    with --smoke. Statements go to its folder theory, pages to its site."""
    length: Annotated[int | None, tyro.conf.arg(metavar="T", help_behavior_hint="")] = None
    """Brackets per string, for theorem-5.1 only."""
    samples: Number = None
    """Number of downstream strings, for theorem-5.1 only."""
    processes: Number = None
    """Number of statements checked in parallel, one core each; by default one per core."""
    json: bool = False
    """Print JSON on stdout: {"records": [...], "statements": [...], "failures": [...]}."""


def theory(options: TheoryOptions) -> int:
    """Carry out the request; returns the exit code."""
    _check(options)
    with starting("theory"):
        from isoloss.command_line.theory_request import run_theory
    return run_theory(options)


def _check(options: TheoryOptions) -> None:
    """Refuse what can be refused without torch, which takes long to import."""
    if options.name is not None:
        statements_named(options.name)
    if (options.length is not None or options.samples is not None) and options.name != SIZED:
        raise BadInput(f"--length and --samples are for one statement: isoloss theory {SIZED}")
    for number, option in ((options.processes, "--processes"), (options.samples, "--samples")):
        if number is not None:
            refuse_below(1, number, option)
    if options.length is not None:
        refuse_unbalanced(options.length, 1.0)
    if options.output is not None:
        refuse_file_as_folder(options.output)
