"""The `isoloss` command: its commands, by purpose, the dispatch to one, and its exit codes.

What a command needs is imported when it is called: neither help nor a mistyped option waits for that.
"""

import errno
import inspect
import os
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, get_type_hints

import isoloss
from isoloss.errors import (
    BadInput,
    Damaged,
    IsolossError,
    Terminated,
    did_you_mean,
    place_in_users_code,
    printable,
)

EXIT_IN_PART = 1
EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
LONGEST_LINE = 2000
NARROWEST, WIDEST = 24, 100
END = (
    "`isoloss COMMAND --help` lists a command's options, with an example.",
    "`isoloss --tyro-print-completion bash` (or zsh, tcsh) prints completions for a shell.",
)
GOING_ON = ("reproduce", "theory", "compare", "corpus", "task", "language teacher")
"""Commands that keep what they have finished."""
OF_OUTPUT = (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EDQUOT, errno.EFBIG)
"""The system's messages when standard output, which has no file name, cannot be written."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its exit code.

    0: done; 1: done in part, with the rest named, or not at all since something is damaged; 2: a mistake that
    the user can fix, stated in one line; 130: interrupted, and the same command resumes from there.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller: what is written there goes nowhere
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader (e.g. `head`) has enough
        _silence_output()
        code = EXIT_BROKEN_PIPE
    except (OSError, UnicodeEncodeError) as error:
        if isinstance(error, UnicodeEncodeError) or (error.filename is None and error.errno in OF_OUTPUT):
            _silence_output()
        print(f"isoloss: {_in_one_line(_reason(error))}", file=sys.stderr)
        code = EXIT_MISTAKE
    except MemoryError:
        print("isoloss: this takes more memory than there is; give smaller numbers", file=sys.stderr)
        code = EXIT_MISTAKE
    except KeyboardInterrupt:
        if arguments is None:  # the process ends here: a second Ctrl-C must not suppress code and line
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        given = " ".join(sys.argv[1:] if arguments is None else arguments) + " "
        goes_on = given.startswith(tuple(f"{command} " for command in GOING_ON))
        resuming = "; what was finished is kept, and the same command goes on from there" * goes_on
        print(f"isoloss: interrupted{resuming}.", file=sys.stderr)
        code = EXIT_INTERRUPTED
    sys.exit(code)


def _reason(error: OSError | UnicodeEncodeError) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"cannot use {error.filename}: {reason}; name another, or mend its permissions"
    if isinstance(error, OSError) and error.errno not in OF_OUTPUT:
        return f"the system refused ({reason}); give the same command again when that is mended"
    advice = "send it elsewhere" if isinstance(error, OSError) else "set PYTHONIOENCODING=utf-8"
    return f"the output cannot be written: {reason}; {advice}"


def _silence_output() -> None:
    # Standard output must not be flushed again at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupt(_signal: int, _frame: object) -> None:
    raise Terminated


def _run(arguments: Sequence[str] | None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    try:
        return dispatch(given)
    except IsolossError as error:
        print(f"isoloss: {_in_one_line(str(error))}", file=sys.stderr)
        return EXIT_IN_PART if isinstance(error, Damaged) else EXIT_MISTAKE
    except Exception as error:
        place = place_in_users_code(error)
        if not (place and any(".py" in each for each in given)):  # the library's own mistake
            raise
        print(f"isoloss: {place}: {_in_one_line(f'{type(error).__name__}: {error}')}", file=sys.stderr)
        return EXIT_MISTAKE


def _in_one_line(sentence: str) -> str:
    """The beginning and end of a message that quotes its input, which may be a whole file."""
    line = printable(" ".join(sentence.splitlines()))
    half = LONGEST_LINE // 2
    return line if len(line) <= LONGEST_LINE else f"{line[:half]} ... {line[-half:]}"


@dataclass(frozen=True)
class Command:
    """A command: `compare-runs` is the function `compare_runs` in the module `command_line.compare_runs`.

    The function takes the command's options; its result is the exit code, None for 0. Its module imports
    nothing that takes long before the function is called.
    """

    name: str

    @property
    def work(self) -> Callable[[Any], int | None]:
        """The function."""
        called = self.name.replace("-", "_")
        found: Callable[[Any], int | None] = getattr(import_module(f"isoloss.command_line.{called}"), called)
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
    # Imported here so that Ctrl-C at the very start is handled as calmly as later.
    import tyro

    from isoloss.command_line.parsed_options import ASKING, COMPLETION, SETTINGS, parsed
    from isoloss.command_line.terminal import escaped_output

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


if __name__ == "__main__":
    main()
