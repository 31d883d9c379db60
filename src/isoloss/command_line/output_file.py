"""Checks of a file that a command is to write, before any work is done for it."""

import tempfile
from pathlib import Path

from isoloss.errors import BadInput
from isoloss.files import writable


def refuse_existing(path: Path) -> None:
    """Raise BadInput for a file that is there already; see also `refuse_unwritable`."""
    if path.exists():
        raise BadInput(f"{path} is there already; name another file, or delete it first")
    refuse_unwritable(path)


def refuse_unwritable(path: Path) -> None:
    """Make the file's folder. Raises IsolossError where nothing can be written into it."""
    with writable(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
