"""The table of `isoloss` commands, grouped by purpose, and the dispatch of a command line."""

import inspect
import os
import shutil
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, get_type_hints

import tyro

import isoloss
from isoloss.command_line.parsed_options import ASKING, COMPLETION, SETTINGS, parsed
from isoloss.command_line.terminal import escaped_output
from isoloss.errors import BadInput, did_you_mean

NARROWEST, WIDEST = 24, 100
END = (
    "`isoloss COMMAND --help` lists a command's options, with an example.",
    "`isoloss --tyro-print-completion bash` (or zsh, tcsh) prints completions for a shell.",
)


@dataclass(frozen=True)
class Command:
    """A command: `compare-runs` is the function `compare_runs` in the module of that name beside this one.

    The function takes the command's options; its result is the exit code, None for 0. Its module imports
    nothing that takes long before the function is called: neither help nor a mistyped option waits for that.
    """

    name: str

    @property
    def work(self) -> Callable[[Any], int | None]:
        """The function."""
        called = self.name.replace("-", "_")
        found: Callable[[Any], int | None] = getattr(import_module(f"{__package__}.{called}"), called)
        return found

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


GROUPS = {
    "measure a checkpoint": ("inspect", "flatness", "sensitivity", "compare", "enlarge"),
    "languages": ("language", "probabilities", "entropy", "sample", "describe"),
    "reproduce": ("reproduce", "theory"),
    "results": ("runs", "show", "compare-runs", "records"),
    "data": ("corpus", "task"),
}
"""The commands' names, in the order in which the overview has them."""

COMMANDS = {name: Command(name) for names in GROUPS.values() for name in names}

FORMER_NAMES = {"law": "probabilities", "compare-checkpoints": "compare"}
"""Names that continue to work but that no help lists."""


def overview() -> str:
    """The help of `isoloss`, as wide as the terminal, up to WIDEST columns."""
    width = min(shutil.get_terminal_size().columns, WIDEST)
    column = max(map(len, COMMANDS)) + 4
    lines = ["usage: isoloss COMMAND ...", ""]
    lines += ["Why language models with the same pre-training loss differ downstream.", ""]
    for title, names in GROUPS.items():
        lines.append(title)
        for name in names:
            start = f"  {name}".ljust(column)
            lines += textwrap.wrap(start + COMMANDS[name].summary, width, subsequent_indent=" " * column)
        lines.append("")
    return "\n".join([*lines, *(textwrap.fill(line, width) for line in END)])


def dispatch(arguments: Sequence[str]) -> int:
    """Execute a command line; returns its exit code. Raises BadInput for an unknown command."""
    name, *rest = arguments or ["--help"]
    if any("\0" in word for word in arguments):
        raise BadInput("an argument has a NUL character, which no name or path has; leave it out")
    if shutil.get_terminal_size().columns < NARROWEST:  # in which tyro would wrap help without end
        os.environ["COLUMNS"] = str(NARROWEST)
    if name in ASKING:
        print(overview())
        return 0
    if name in ("--version", "-V"):
        print(f"isoloss {isoloss.__version__}")
        return 0
    if name.startswith(COMPLETION):
        kinds: dict[str, Callable[..., Any]] = {each: command.options for each, command in COMMANDS.items()}
        tyro.extras.subcommand_cli_from_dict(kinds, args=arguments, prog="isoloss", config=SETTINGS)
        return 0
    name = FORMER_NAMES.get(name, name)
    if name not in COMMANDS:
        near = did_you_mean(name, (*COMMANDS, "--help", "--version")) or "; `isoloss --help` lists them"
        raise BadInput(f"there is no command {name!r}{near}")
    command = COMMANDS[name]
    options = parsed(name, rest, command.options)
    with escaped_output():
        return command.work(options) or 0
