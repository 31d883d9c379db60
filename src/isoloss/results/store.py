"""JSON files that reveal when their content is not what was written, or was written elsewhere."""

import hashlib
import json
from pathlib import Path
from typing import Any

from isoloss.errors import Damaged
from isoloss.files import write_atomically

SEAL = "sha256"
"""The key under which an object keeps its digest."""

SEAL_LENGTH = 64
"""Length of a hexadecimal digest."""

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
    >>> _ = path.write_text(path.read_text().replace("2,", "3,"))
    >>> read_sealed(path, "some")
    Traceback (most recent call last):
    isoloss.errors.Damaged: ...some.json is damaged or not what its name says; delete it and run again
    """
    text = json.dumps(sealed(content, name), indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, text + "\n")


def read_sealed(path: Path, name: str) -> Any:
    """The object that `write_sealed` wrote under that name.

    One without a digest, as written by early 0.2.0, is accepted. Raises Damaged if the file is missing or
    anything else.
    """
    try:
        return unsealed(json.loads(path.read_bytes()), name)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(path) from error


def sealed(content: dict[str, Any], name: str) -> dict[str, Any]:
    """The object with `sha256`, the digest of `name` and everything else."""
    return {**content, SEAL: _digest(content, name)}


def unsealed(content: Any, name: str) -> Any:
    """The content without its digest, verified; content that never had a digest is returned as it is.

    Raises ValueError if the digest does not match or if `content` is not an object.
    """
    if not isinstance(content, dict):
        raise ValueError("it is no object")
    if SEAL in content:
        rest = {key: value for key, value in content.items() if key != SEAL}
        whole = content[SEAL] == _digest(rest, name)
    else:
        rest, whole = content, not _seal_by_another_key(content, name)
    if not whole:
        raise ValueError("it is not what was written")
    return rest


def _seal_by_another_key(content: dict[str, Any], name: str) -> bool:
    """Whether a value is the digest of all others, or of one of them: then the seal's key was damaged."""
    for key, value in content.items():
        if isinstance(value, str) and len(value) == SEAL_LENGTH:
            others = {other: content[other] for other in content if other != key}
            if value in (_digest(others, name), *(_digest(other, name) for other in others.values())):
                return True
    return False


def damaged(path: Path) -> Damaged:
    """The error for a file that is anything but what was written under its name."""
    return Damaged(f"{path} is damaged or not what its name says; delete it and run again")


def json_digest(content: Any) -> str:
    """SHA-256 of plain data: equal data have equal digests, whatever the order of keys."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _digest(content: Any, name: str) -> str:
    return json_digest([FORMAT, name, content])
