"""The table of `isoloss` commands, grouped by purpose, and the dispatch of a command line."""

import inspect
import shutil
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

import tyro

from isoloss.command_line.compare import compare
from isoloss.command_line.compare_runs import compare_runs
from isoloss.command_line.corpus import corpus
from isoloss.command_line.describe import describe
from isoloss.command_line.enlarge import enlarge
from isoloss.command_line.entropy import entropy
from isoloss.command_line.flatness import flatness
from isoloss.command_line.inspect_models import inspect_models
from isoloss.command_line.language import language
from isoloss.command_line.probabilities import probabilities
from isoloss.command_line.records import records
from isoloss.command_line.reproduce import reproduce
from isoloss.command_line.runs import runs
from isoloss.command_line.sample import sample
from isoloss.command_line.sensitivity import sensitivity
from isoloss.command_line.show import show
from isoloss.command_line.task import task
from isoloss.command_line.theory import theory
from isoloss.errors import BadInput, did_you_mean

WIDEST = 100
END = """`isoloss COMMAND --help` lists a command's options, with an example.
`isoloss --tyro-print-completion bash` (or zsh, tcsh) prints completions for a shell."""


@dataclass(frozen=True)
class Command:
    """A command: its name, and the function of its options that does the work.

    The function's result is the exit code, None for 0. Its module imports nothing that takes long before it
    is called: neither help nor a mistyped option should wait for that.
    """

    name: str
    work: Callable[[Any], int | None]

    @property
    def options(self) -> type[Any]:
        """The dataclass of its options."""
        (options,) = (hint for name, hint in get_type_hints(self.work).items() if name != "return")
        known: type[Any] = options
        return known

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return (inspect.getdoc(self.options) or "").splitlines()[0]


GROUPS: dict[str, tuple[Command, ...]] = {
    "measure a checkpoint": (
        Command("inspect", inspect_models),
        Command("flatness", flatness),
        Command("sensitivity", sensitivity),
        Command("compare", compare),
        Command("enlarge", enlarge),
    ),
    "languages": (
        Command("language", language),
        Command("probabilities", probabilities),
        Command("entropy", entropy),
        Command("sample", sample),
        Command("describe", describe),
    ),
    "reproduce": (Command("reproduce", reproduce), Command("theory", theory)),
    "results": (
        Command("runs", runs),
        Command("show", show),
        Command("compare-runs", compare_runs),
        Command("records", records),
    ),
    "data": (Command("corpus", corpus), Command("task", task)),
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
    command = COMMANDS[name]
    options = tyro.cli(command.options, args=rest, prog=f"isoloss {name}", config=SETTINGS)
    return command.work(options) or 0


def _completion(arguments: Sequence[str]) -> int:
    """Answer one of tyro's options for the completion of every command; it ends the process."""
    options: dict[str, Callable[..., Any]] = {name: command.options for name, command in COMMANDS.items()}
    tyro.extras.subcommand_cli_from_dict(options, args=arguments, prog="isoloss", config=SETTINGS)
    return 0
