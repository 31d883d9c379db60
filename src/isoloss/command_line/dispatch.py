"""From the words of a command line to the work: what is asked is read first, what does it imported then."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tyro

from isoloss.command_line.commands import COMMANDS, FORMER_NAMES, Command, overview
from isoloss.command_line.progress_display import announced_when_slow
from isoloss.errors import BadInput, did_you_mean

SETTINGS = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
COMPLETION = "--tyro-"
"""How tyro's own options begin, which write completions for shells."""


def dispatch(arguments: Sequence[str]) -> int:
    """Do what a command line asks for; its exit code. Raises BadInput for a command that there is not."""
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
    """For imports, of which the collector frees nothing but takes a fifth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _completion(arguments: Sequence[str]) -> int:
    """Answer one of tyro's options on the completion of every command; it ends the process."""
    options: dict[str, Callable[..., Any]] = {name: command.options for name, command in COMMANDS.items()}
    tyro.extras.subcommand_cli_from_dict(options, args=arguments, prog="isoloss", config=SETTINGS)
    return 0
