"""Files that show when they are not what was written: a format's number, and a digest of content and name.

No file is ever unpickled: reading one runs no code, wherever it comes from.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from isoloss.errors import BadInput
from isoloss.files import write_atomically

FORMAT = "1"
"""Raised when files are laid out differently; those of another number are refused."""
ONLY_WHEN_CHANGED = {"only when changed": True}
"""Of a dataclass's field: its default goes unsaid, so that settings from before keep their names."""


def write_json(path: Path, content: Any, name: str) -> None:
    """Write plain data as JSON, complete or absent; `name` says what they are, and is asked for again.

    Raises IsolossError where the file cannot be written.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "some.json"
    >>> write_json(path, {"words": 2}, "some")
    >>> read_json(path, "some")
    {'words': 2}
    """
    whole = {"format": FORMAT, "digest": _digest(content, name), "content": content}
    write_atomically(path, json.dumps(whole, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path, name: str) -> Any:
    """What `write_json` wrote under that name. Raises BadInput where the file is anything else."""
    try:
        whole = json.loads(path.read_bytes())
        intact = whole["format"] == FORMAT and whole["digest"] == _digest(whole["content"], name)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(path) from error
    if not intact:
        raise damaged(path)
    return whole["content"]


def damaged(path: Path) -> BadInput:
    """What is raised where a file is anything but what was written under its name."""
    return BadInput(f"{path} is damaged or not what its name says; delete it and run again")


def _digest(content: Any, name: str) -> str:
    canonical = json.dumps([FORMAT, name, content], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
