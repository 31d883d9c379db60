"""JSON files that reveal when their content is not what was written."""

import hashlib
import json
from pathlib import Path
from typing import Any

from isoloss.errors import BadInput
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


def write_json(path: Path, content: Any, name: str) -> None:
    """Write plain data as JSON, complete or absent; `name` identifies them and is required for reading.

    Raises IsolossError if the file cannot be written.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "some.json"
    >>> write_json(path, {"words": 2}, "some")
    >>> read_json(path, "some")
    {'words': 2}
    """
    whole = {"format": FORMAT, "digest": _digest(content, name), "content": content}
    write_atomically(path, json.dumps(whole, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path, name: str) -> Any:
    """What `write_json` wrote under that name. Raises BadInput if the file is anything else."""
    try:
        whole = json.loads(path.read_bytes())
        intact = whole["format"] == FORMAT and whole["digest"] == _digest(whole["content"], name)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(path) from error
    if not intact:
        raise damaged(path)
    return whole["content"]


def write_sealed(path: Path, content: dict[str, Any], name: str) -> None:
    """Write an object of plain data as indented JSON with its `sealed` digest, complete or absent.

    Raises IsolossError if the file cannot be written.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "some.json"
    >>> write_sealed(path, {"words": 2}, "some")
    >>> read_sealed(path, "some")
    {'words': 2}
    >>> _ = path.write_text(path.read_text().replace("2,", "3,"))
    >>> read_sealed(path, "some")
    Traceback (most recent call last):
    isoloss.errors.BadInput: ...some.json is damaged or not what its name says; delete it and run again
    """
    text = json.dumps(sealed(content, name), indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, text + "\n")


def read_sealed(path: Path, name: str) -> dict[str, Any]:
    """The object that `write_sealed` wrote under that name.

    One without a digest, as written by early 0.2.0, is accepted. Raises BadInput if the file is anything
    else.
    """
    try:
        return unsealed(json.loads(path.read_bytes()), name)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise damaged(path) from error


def sealed(content: dict[str, Any], name: str) -> dict[str, Any]:
    """The object with `sha256`, the digest of `name` and everything else."""
    return {**content, SEAL: _digest(content, name)}


def unsealed(content: Any, name: str) -> dict[str, Any]:
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
    """Whether a value is the digest of all others: then the seal's key was damaged."""
    return any(
        value == _digest({other: content[other] for other in content if other != key}, name)
        for key, value in content.items()
        if isinstance(value, str) and len(value) == SEAL_LENGTH
    )


def damaged(path: Path) -> BadInput:
    """The error for a file that is anything but what was written under its name."""
    return BadInput(f"{path} is damaged or not what its name says; delete it and run again")


def json_digest(content: Any) -> str:
    """SHA-256 of plain data: equal data have equal digests, whatever the order of keys."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _digest(content: Any, name: str) -> str:
    return json_digest([FORMAT, name, content])
