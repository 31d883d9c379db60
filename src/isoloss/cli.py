"""The `isoloss` command: parses the arguments, then imports what it needs; one line for a user's mistake."""

import errno
import os
import signal
import sys
from collections.abc import Sequence

from isoloss.errors import Terminated, printable

EXIT_IN_PART = 1
EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
LONGEST_LINE = 2000
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
    # Imported here so that Ctrl-C at the very start is handled as calmly as later.
    from isoloss.command_line.commands import dispatch
    from isoloss.errors import Damaged, IsolossError, place_in_users_code

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


if __name__ == "__main__":
    main()
