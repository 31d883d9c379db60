"""JSON files that reveal when their content is not what was written, or was written elsewhere."""

import hashlib
import json
from pathlib import Path
from typing import Any

from isoloss.errors import Damaged
from isoloss.files import file_content, file_digest, write_atomically

SEAL = "sha256"
"""The key under which an object keeps its digest."""

FORMAT = "1"
"""Version of the file layout, incremented when it changes; files of another version are refused."""

ONLY_WHEN_CHANGED = {"only when changed": True}
"""Field metadata: at its default the field is left out of the settings' JSON, so that adding a field keeps
the digests of existing settings."""


def write_sealed(path: Path, content: dict[str, Any], name: str) -> None:
    """Write an object of plain data as indented JSON with its `sealed` digest, complete or absent.

    `name` identifies it and is required for reading. Raises IsolossError if the file cannot be written.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "some.json"
    >>> write_sealed(path, {"words": 2}, "some")
    >>> read_sealed(path, "some")
    {'words': 2}
    """
    write_atomically(path, sealed_text(content, name))


def sealed_text(content: dict[str, Any], name: str) -> str:
    """What `write_sealed` writes."""
    return json.dumps(sealed(content, name), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_sealed(path: Path, name: str) -> Any:
    """The object that `write_sealed` wrote under that name.

    Raises Damaged if the file is missing or anything else.
    """
    try:
        content = json.loads(file_content(path))
        whole = isinstance(content, dict) and content.pop(SEAL, None) == _digest(content, name)
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(path) from error
    if not whole:
        raise damaged(path)
    return content


def sealed(content: dict[str, Any], name: str) -> dict[str, Any]:
    """The object with `sha256`, the digest of `name` and everything else."""
    return {**content, SEAL: _digest(content, name)}


def digests_in(folder: Path) -> dict[str, str]:
    """`file_digest` of each file in a folder, at any depth, by its path there: for an index of them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in files}


def damaged(path: Path) -> Damaged:
    """The error for a file that is anything but what was written under its name."""
    return Damaged(f"{path} is damaged or not what its name says; delete it and run again")


def json_digest(content: Any) -> str:
    """SHA-256 of plain data: equal data have equal digests, whatever the order of keys."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _digest(content: Any, name: str) -> str:
    return json_digest([FORMAT, name, content])
