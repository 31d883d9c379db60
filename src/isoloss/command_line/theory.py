"""`isoloss theory`: the paper's lemmas and theorems, computed, on the site of the experiments beside them."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from isoloss.command_line.options import Folder, Number, refuse_below
from isoloss.command_line.reproduce import ReproduceOptions, command_again
from isoloss.command_line.terminal import progress_display, starting
from isoloss.errors import BadInput
from isoloss.files import refuse_file_as_folder
from isoloss.languages.bracket_strings import refuse_unbalanced
from isoloss.theory import statements_named

if TYPE_CHECKING:
    from isoloss.executors.job import Job, Notice
    from isoloss.experiments.experiment_result import Executor
    from isoloss.progress import Progress
    from isoloss.theory.finding import Entry
    from isoloss.theory.suite import PlannedStatement

SIZED = "theorem-5.1"
"""The statement whose size may be chosen."""

LONGEST_CURVE = 16
"""Numbers of strings on the curve up to --samples, each of which is simulated."""


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
    """Carry out the request; returns 0 if all was computed, whatever the verdicts, 1 if some was not."""
    _check_without_torch(options)
    with starting("theory"):
        from isoloss.command_line.reproduction import executor
        from isoloss.command_line.verdict_lines import print_summary, results_as_json
        from isoloss.files import only_process_in
        from isoloss.report.site import THEORY
        from isoloss.theory.suite import SUITE, PlannedStatement, named

    entries = SUITE if options.name is None else named(options.name)
    planned = [PlannedStatement(entry, _settings(entry, options)) for entry in entries]
    # All that there is at this scale: the statements share its folder and site.
    whole = ReproduceOptions(
        ("all",), "smoke" if options.smoke else "laptop", options.output, processes=options.processes
    )
    folder = whole.folder / THEORY
    jobs, execute = _missing(planned, folder), executor(whole)
    with only_process_in(whole.folder), progress_display() as progress:
        outcome = execute(jobs, progress)
        page, left_out = _on_the_site(whole, execute, progress)
    failures = (*outcome.failures, *left_out)
    if page is None:
        print(
            f"the experiments in {whole.folder} are unfinished, or not those of the scale {whole.scale}: the "
            "pages there stay as they are; running isoloss reproduce there again adds the statements",
            file=sys.stderr,
        )
    results = {each.file(folder): found for each in planned if (found := each.read(folder)[0]) is not None}
    if options.json:
        print(results_as_json(results, failures))
    of_own_size = options.length is not None or options.samples is not None
    if of_own_size:
        print(
            f"the pages in {whole.folder} show {SIZED} only at the length and samples that it has by itself",
            file=sys.stderr,
        )
    print_summary(results, failures, None if of_own_size else page)
    return 1 if failures else 0


def _missing(planned: "Sequence[PlannedStatement]", folder: Path) -> "list[Job]":
    """The jobs of the statements that are not in the folder; says of the others that they are."""
    from isoloss.executors.job import Job

    there = [statement.read(folder) for statement in planned]
    for damage in filter(None, (damage for _, damage in there)):
        print(f"{damage}; it is computed again", file=sys.stderr)
    jobs = [
        Job(statement.name, partial(statement.carry_out, folder), statement.entry.seconds)
        for statement, (saved, _) in zip(planned, there, strict=True)
        if saved is None
    ]
    if kept := len(planned) - len(jobs):
        print(
            f"{kept} of {len(planned)} are as this version of isoloss computed them before; to compute them "
            f"anew, as after a change of the code, delete {folder}",
            file=sys.stderr,
        )
    return jobs


def _check_without_torch(options: TheoryOptions) -> None:
    if options.name is not None:
        statements_named(options.name)
    if (options.length is not None or options.samples is not None) and options.name != SIZED:
        raise BadInput(f"--length and --samples are for one statement: isoloss theory {SIZED}")
    refuse_below(1, options.processes, "--processes")
    refuse_below(1, options.samples, "--samples")
    if options.length is not None:
        refuse_unbalanced(options.length, 1.0)
    if options.output is not None:
        refuse_file_as_folder(options.output)


def _on_the_site(
    whole: ReproduceOptions, execute: "Executor", progress: "Progress"
) -> "tuple[Path | None, Sequence[Notice]]":
    """Write the folder's site; its first page, None if experiments were begun and none is done; failures."""
    from isoloss.experiments.design import Changes, other_experiments
    from isoloss.experiments.experiment_result import is_done, was_planned
    from isoloss.experiments.scale import scale_named
    from isoloss.report.site import Site, write_whole_site

    others = other_experiments(scale_named(whole.scale), Changes())
    begun = [name for name in others if was_planned(name, whole.folder)]
    if begun and not any(is_done(others[name](), whole.folder) for name in begun):
        return None, ()
    site = Site(whole.scale, whole.folder, (), partial(command_again, whole))
    page, outcome = write_whole_site(site, others, execute, progress)
    return page, outcome.failures


def _settings(entry: "Entry", options: TheoryOptions) -> object:
    settings = entry.smoke if options.smoke else entry.full
    if options.length is None and options.samples is None:
        return settings
    samples = settings.samples if options.samples is None else options.samples
    length = settings.length if options.length is None else options.length
    return replace(settings, length=length, samples=samples, longest_curve=min(samples, LONGEST_CURVE))
