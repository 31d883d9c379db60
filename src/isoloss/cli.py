"""The `isoloss` command: reads what is asked, then imports what does it; one line for a user's mistake."""

import os
import signal
import sys
from collections.abc import Sequence

from isoloss.errors import Terminated

EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
LONGEST_LINE = 2000


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
        if isinstance(error, OSError) and error.filename is not None:
            # Standard output has no name: this is a file that some step of the work could not use.
            reason = _in_one_line(
                f"cannot use {error.filename}: {error.strerror}; name another, or mend its permissions"
            )
        else:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            said = getattr(error, "strerror", None) or error
            reason = f"the output cannot be written: {said}; send it elsewhere"
        print(f"isoloss: {reason}", file=sys.stderr)
        code = EXIT_MISTAKE
    except MemoryError:
        print("isoloss: this takes more memory than there is; give smaller numbers", file=sys.stderr)
        code = EXIT_MISTAKE
    except KeyboardInterrupt:
        if arguments is None:  # the process ends here: a second Ctrl-C must not take code and line away
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        print(
            "isoloss: interrupted; what was finished is kept, and the same command goes on from there.",
            file=sys.stderr,
        )
        code = EXIT_INTERRUPTED
    sys.exit(code)


def _interrupt(_signal: int, _frame: object) -> None:
    raise Terminated


def _run(arguments: Sequence[str] | None) -> int:
    # Imported here so that Ctrl-C at the very start is answered as calmly as later.
    from isoloss.command_line.commands import dispatch
    from isoloss.errors import IsolossError

    try:
        return dispatch(sys.argv[1:] if arguments is None else arguments)
    except IsolossError as error:
        print(f"isoloss: {_in_one_line(str(error))}", file=sys.stderr)
        return EXIT_MISTAKE


def _in_one_line(sentence: str) -> str:
    """A sentence that quotes what it was given, which may be a whole file: its beginning and its end."""
    line = " ".join(sentence.splitlines())
    return (
        line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE // 2]} ... {line[-LONGEST_LINE // 2 :]}"
    )


if __name__ == "__main__":
    main()
