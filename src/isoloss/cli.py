"""The `isoloss` command: reads what is asked, then imports what does it; one line for a user's mistake."""

import os
import signal
import sys
from collections.abc import Sequence

EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


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


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _run(arguments: Sequence[str] | None) -> int:
    # Imported here so that Ctrl-C at the very start is answered as calmly as later.
    from isoloss.command_line.dispatch import dispatch
    from isoloss.errors import IsolossError

    try:
        return dispatch(sys.argv[1:] if arguments is None else arguments)
    except IsolossError as error:
        print(f"isoloss: {error}", file=sys.stderr)
        return EXIT_MISTAKE


if __name__ == "__main__":
    main()
