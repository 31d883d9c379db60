"""The Dyck variant as a file: JSON, such as {"dyck": {"length": 8}}."""

import json
from pathlib import Path

from isoloss.errors import BadInput
from isoloss.files import read_text
from isoloss.languages.dyck import Dyck, dyck

EXAMPLE = '{"dyck": {"length": 8}}'


def read_dyck(path: Path | str) -> Dyck:
    """Read a Dyck language from a JSON file; see `parse_dyck`.

    Raises BadInput when there is no such file, when it is no text, or for what `parse_dyck` refuses.
    """
    return parse_dyck(read_text(Path(path), f"a Dyck language, such as {EXAMPLE}"), str(path))


def parse_dyck(text: str, source: str = "the Dyck language") -> Dyck:
    """Read a Dyck language from JSON.

    Raises BadInput, naming `source`, for anything but an object like that of `write_dyck`, and for a length
    that `dyck` refuses.

    >>> parse_dyck('{"dyck": {"length": 8}}')
    Dyck(length=8)
    """
    try:
        content = json.loads(text)
        length = content["dyck"]["length"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(f"{source}: this is no Dyck language; write {EXAMPLE}") from error
    if content != {"dyck": {"length": length}} or type(length) is not int:
        raise BadInput(f"{source}: a Dyck language is its length, a whole number, alone; write {EXAMPLE}")
    try:
        return dyck(length)
    except BadInput as error:
        raise BadInput(f"{source}: {error}") from error


def write_dyck(language: Dyck) -> str:
    r"""Write a Dyck language as JSON, so that reading it gives an equal one.

    >>> write_dyck(dyck(8))
    '{"dyck": {"length": 8}}\n'
    """
    return json.dumps({"dyck": {"length": language.length}}) + "\n"
