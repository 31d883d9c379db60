"""A command whose output is not read to the end, as in `isoloss sample ... | head -1`."""

import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from isoloss.cli import main

FORK = multiprocessing.get_context("fork")


def left_by_its_reader(arguments: Sequence[str], folder: Path, lines: int) -> tuple[int | None, str]:
    """The command's exit code and its stderr, if only that many lines of its output are read.

    In a child process, since the command closes its process's standard output.
    """
    outward, error = os.pipe(), os.pipe()

    def command() -> None:
        os.close(outward[0])
        os.chdir(folder)
        sys.stdout, sys.stderr = os.fdopen(outward[1], "w"), os.fdopen(error[1], "w")
        main(arguments)

    process = FORK.Process(target=command)
    process.start()
    os.close(outward[1])
    os.close(error[1])
    with os.fdopen(outward[0]) as output:
        for _ in range(lines):
            assert output.readline()
    with os.fdopen(error[0]) as told:
        said = told.read()
    process.join()
    return process.exitcode, said
