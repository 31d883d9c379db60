"""The table of `isoloss` commands, grouped by purpose, and the dispatch of a command line."""

import gc
import inspect
import shutil
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import tyro

from isoloss.command_line.options.checkpoints import (
    CompareOptions,
    EnlargeOptions,
    FlatnessOptions,
    InspectOptions,
)
from isoloss.command_line.options.corpus import CorpusOptions, TaskOptions
from isoloss.command_line.options.language import LanguageOptions
from isoloss.command_line.options.language_file import (
    DescribeOptions,
    EntropyOptions,
    ProbabilitiesOptions,
    SampleOptions,
)
from isoloss.command_line.options.reproduce import ReproduceOptions, TheoryOptions
from isoloss.command_line.options.results import CompareRunsOptions, RecordsOptions, RunsOptions, ShowOptions
from isoloss.command_line.terminal import announced_when_slow
from isoloss.errors import BadInput, did_you_mean

WIDEST = 100
END = """`isoloss COMMAND --help` lists a command's options, with an example.
`isoloss --tyro-print-completion bash` (or zsh, tcsh) prints completions for a shell."""


@dataclass(frozen=True)
class Command:
    """A command: its name, the dataclass of its options, and the function that performs it.

    The function is given as `module:function` below `isoloss.command_line`, and imported only when it is
    called: most take seconds to import, and neither help nor a mistyped option should wait for that.
    """

    name: str
    options: type[Any]
    work: str

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return (inspect.getdoc(self.options) or "").splitlines()[0]

    def load(self) -> Callable[[Any], int | None]:
        """The function that takes the options and does the work; its result is the exit code, None for 0."""
        module, _, function = self.work.partition(":")
        work: Callable[[Any], int | None] = getattr(import_module(f"isoloss.command_line.{module}"), function)
        return work


GROUPS: dict[str, tuple[Command, ...]] = {
    "measure a checkpoint": (
        Command("inspect", InspectOptions, "inspection:inspect_models"),
        Command("flatness", FlatnessOptions, "flatness_request:measure_flatness"),
        Command("compare", CompareOptions, "comparison_request:measure_comparison"),
        Command("enlarge", EnlargeOptions, "enlarge:enlarge"),
    ),
    "languages": (
        Command("language", LanguageOptions, "language:language"),
        Command("probabilities", ProbabilitiesOptions, "probabilities:probabilities"),
        Command("entropy", EntropyOptions, "entropy:entropy"),
        Command("sample", SampleOptions, "sample:sample"),
        Command("describe", DescribeOptions, "describe:describe"),
    ),
    "reproduce": (
        Command("reproduce", ReproduceOptions, "reproduction:reproduce_experiments"),
        Command("theory", TheoryOptions, "theory_request:run_theory"),
    ),
    "results": (
        Command("runs", RunsOptions, "runs:runs"),
        Command("show", ShowOptions, "show:show"),
        Command("compare-runs", CompareRunsOptions, "compare_runs:compare_runs"),
        Command("records", RecordsOptions, "records:records"),
    ),
    "data": (
        Command("corpus", CorpusOptions, "corpus:corpus"),
        Command("task", TaskOptions, "task:task"),
    ),
}

COMMANDS = {command.name: command for group in GROUPS.values() for command in group}

FORMER_NAMES = {"law": "probabilities", "compare-checkpoints": "compare"}
"""Names that continue to work but that no help lists."""


def overview() -> str:
    """The help of `isoloss`, as wide as the terminal, up to WIDEST columns."""
    width = min(shutil.get_terminal_size().columns, WIDEST)
    column = max(map(len, COMMANDS)) + 4
    lines = ["usage: isoloss COMMAND ...", ""]
    lines += ["Why language models with the same pre-training loss differ downstream.", ""]
    for title, commands in GROUPS.items():
        lines.append(title)
        for command in commands:
            start = f"  {command.name}".ljust(column)
            lines += textwrap.wrap(start + command.summary, width, subsequent_indent=" " * column)
        lines.append("")
    return "\n".join([*lines, END])


SETTINGS = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
COMPLETION = "--tyro-"
"""The prefixes of tyro's own options, which write completions for shells."""


def dispatch(arguments: Sequence[str]) -> int:
    """Execute a command line; returns its exit code. Raises BadInput for an unknown command."""
    name, *rest = arguments or ["--help"]
    if any("\0" in word for word in arguments):
        raise BadInput("an argument has a NUL character, which no name or path has; leave it out")
    if name in ("--help", "-h"):
        print(overview())
        return 0
    if name.startswith(COMPLETION):
        return _completion(arguments)
    name = FORMER_NAMES.get(name, name)
    if name not in COMMANDS:
        near = did_you_mean(name, COMMANDS) or "; `isoloss --help` lists them"
        raise BadInput(f"there is no command {name!r}{near}")
    return _do(COMMANDS[name], rest)


def _do(command: Command, arguments: Sequence[str]) -> int:
    options = tyro.cli(command.options, args=arguments, prog=f"isoloss {command.name}", config=SETTINGS)
    with announced_when_slow(f"isoloss {command.name}: starting"), without_collecting_garbage():
        work = command.load()
    return work(options) or 0


@contextmanager
def without_collecting_garbage() -> Iterator[None]:
    """For imports, during which garbage collection frees nothing but takes a fifth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _completion(arguments: Sequence[str]) -> int:
    """Answer one of tyro's options for the completion of every command; it ends the process."""
    options: dict[str, Callable[..., Any]] = {name: command.options for name, command in COMMANDS.items()}
    tyro.extras.subcommand_cli_from_dict(options, args=arguments, prog="isoloss", config=SETTINGS)
    return 0
