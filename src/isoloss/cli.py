"""The `isoloss` command: one subcommand a file of `command_line`, one line for a user's mistake."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

COMMANDS = (
    "reproduce",
    "flatness",
    "compare-checkpoints",
    "law",
    "entropy",
    "sample",
    "describe",
    "language",
    "corpus",
    "enlarge",
    "theory",
    "runs",
    "show",
    "compare",
    "task",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code.

    0: done; 1: done in part, the rest is named; 2: a mistake that the user can mend, said in one line;
    130: interrupted, and the same command goes on from there.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = _run(arguments)
        if sys.stdout is not None:  # it may have been closed
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`head`, say) has enough; stdout must not be flushed again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_BROKEN_PIPE
    except (OSError, UnicodeEncodeError) as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        reason = getattr(error, "strerror", None) or error
        print(f"isoloss: the output cannot be written: {reason}; send it elsewhere", file=sys.stderr)
        code = EXIT_MISTAKE
    except KeyboardInterrupt:
        print(
            "isoloss: interrupted; what was finished is kept, and the same command goes on from there.",
            file=sys.stderr,
        )
        code = EXIT_INTERRUPTED
    sys.exit(code)


def _command(name: str) -> Callable[..., object]:
    """The function of a command: that of its name, as Python writes it, in the file of its name."""
    name = name.replace("-", "_")
    command: Callable[..., object] = getattr(import_module(f"isoloss.command_line.{name}"), name)
    return command


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _run(arguments: Sequence[str] | None) -> int:
    # Imported here so that Ctrl-C while torch loads is answered as calmly as later.
    import tyro

    from isoloss.errors import IsolossError

    given = list(sys.argv[1:] if arguments is None else arguments)
    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
    try:
        if given and given[0] in COMMANDS:
            # Most commands take seconds to import: only the one that is asked for is.
            asked = _command(given[0])
            result = tyro.cli(asked, args=given[1:], prog=f"isoloss {given[0]}", config=config)
        else:
            result = tyro.extras.subcommand_cli_from_dict(
                {name: _command(name) for name in COMMANDS},
                args=given,
                prog="isoloss",
                description="Why language models with the same pre-training loss differ downstream.",
                config=config,
            )
    except IsolossError as error:
        print(f"isoloss: {error}", file=sys.stderr)
        return EXIT_MISTAKE
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    main()
