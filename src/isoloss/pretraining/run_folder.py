"""A run's folder: one specification, one process at a time."""

import fcntl
import os
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from isoloss.errors import BadInput, Damaged, FolderHeld, IsolossError
from isoloss.files import writable
from isoloss.pretraining.processes import Processes
from isoloss.pretraining.specification import (
    PretrainingSpecification,
    first_difference,
    settings_as_json,
)
from isoloss.results.checkpoint import SPECIFICATION_FILE, specification_digests
from isoloss.results.store import read_sealed, write_sealed

_held_here: set[Path] = set()
"""Record locks do not tell a process's own threads apart, so each process keeps its own list."""


@contextmanager
def only_process_in(folder: Path) -> Iterator[None]:
    """Lock `folder`, created if necessary, for this process; the lock ends with the process in any case.

    It is a record lock, which children created by `fork` do not inherit: orphaned workers of a killed run
    cannot keep it. On a shared file system it also works between machines. Raises FolderHeld when another run
    holds the folder, IsolossError when it cannot be written or locked.
    """
    with writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        # Opening and closing the file again in this process would release the first lock.
        if (path := folder.resolve()) in _held_here:
            raise _held(folder, _here())
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    _held_here.add(path)
    try:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise _held(folder, os.pread(handle, 80, 0).decode().strip() or "unknown") from None
        except OSError as error:  # a file system without locks
            raise IsolossError(
                f"{folder} cannot be locked ({error.strerror}); put it on a file system with locks"
            ) from error
        os.pwrite(handle, f"{_here():<80}".encode(), 0)
        yield
    finally:
        os.close(handle)
        _held_here.discard(path)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """`only_process_in`, or the caller's own lock if it already holds `folder`."""
    with nullcontext() if folder.resolve() in _held_here else only_process_in(folder):
        yield


@contextmanager
def only_run_in(folder: Path, processes: Processes) -> Iterator[None]:
    """`only_process_in` for all processes that train a run together: the main process locks the folder."""
    with ExitStack() as held:
        processes.on_main(lambda: held.enter_context(only_process_in(folder)))
        yield


def _here() -> str:
    return f"{os.getpid()} on {platform.node()}"


def _held(folder: Path, process: str) -> FolderHeld:
    return FolderHeld(
        f"another run is training in {folder} (process {process}); "
        "wait for it, stop it, or name another folder"
    )


def claim(folder: Path, specification: PretrainingSpecification) -> None:
    """Write the specification into a new run's folder; refuse a folder with another specification.

    A damaged one is rewritten if no checkpoint belongs to another, one that was put there from another run if
    there are checkpoints and all are of this. Raises BadInput naming the first setting that differs, or what
    else is wrong.
    """
    path = folder / SPECIFICATION_FILE
    settings = settings_as_json(specification)
    of_checkpoints = set(specification_digests(folder))
    try:
        there = read_sealed(path, SPECIFICATION_FILE)
    except Damaged:
        if path.exists() and not of_checkpoints <= {specification.digest}:
            raise BadInput(
                f"{path} is damaged, and checkpoints in {folder} are of another run than this; name another "
                "folder"
            ) from None
        write_sealed(path, settings, SPECIFICATION_FILE)
        return
    if difference := first_difference(there, settings):
        if of_checkpoints != {specification.digest}:
            raise BadInput(
                f"{folder} holds another run: its {difference}; name another folder, or delete this one"
            )
        write_sealed(path, settings, SPECIFICATION_FILE)
