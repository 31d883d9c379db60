"""Files that are complete or absent: temporary name, fsync, rename."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from isoloss.errors import IsolossError


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write `content` to `path` so that a reader, or a crash, sees all of it or none.

    Raises IsolossError when the folder cannot be written or the disk is full.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_atomically(folder / "a.txt", "whole")
    >>> (folder / "a.txt").read_text()
    'whole'
    """
    data = content.encode() if isinstance(content, str) else content
    with writable(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames inside `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Turn the system's refusal to write below `folder` into a sentence."""
    try:
        yield
    except OSError as error:
        raise IsolossError(
            f"cannot write in {folder}: {error.strerror or error}; "
            "free some space, mend the permissions, or name another folder"
        ) from error
