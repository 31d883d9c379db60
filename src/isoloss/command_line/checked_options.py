"""What commands check of seeds and of the files that they are to write, before any work is done."""

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


def usable_seed(seed: int) -> int:
    """The seed, where torch can take it. Raises BadInput where it cannot."""
    if not 0 <= seed < 2**63:
        raise BadInput(f"--seed must be from 0 to {2**63 - 1}, not {seed}")
    return seed
