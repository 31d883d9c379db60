"""Tables from files of any kind: rows of a text, or of a text and what is to be said of it."""

import io
import json
from pathlib import Path
from textwrap import shorten
from typing import Any

import polars as pl

from isoloss.errors import BadInput, first_line
from isoloss.files import read_text

COLUMNS = (
    ("text", "second"),
    ("sentence1", "sentence2"),
    ("question", "sentence"),
    ("premise", "hypothesis"),
    ("text",),
    ("sentence",),
)
"""Columns that hold an example's text, or its two: ours and GLUE's. The first complete group is read."""

LABEL = "label"


def read_table(path: Path, kind: str) -> pl.DataFrame:
    """A table of any kind, by the file's ending; `kind` says what it should hold.

    The cells of a .csv and a .tsv are text, whose rows in the latter are unquoted, as GLUE's are. A .json is
    a list of objects, or one object a line; strings instead of objects are a column 'text'. Raises BadInput
    if it cannot be read.
    """
    try:
        match path.suffix.lower():
            case ".jsonl" | ".ndjson" | ".json":
                return _json_objects(path, kind)
            case ".csv":
                text = _separated(read_text(path, kind), path, ",", ";", "\t")
                return pl.read_csv(io.StringIO(text), infer_schema=False)
            case ".tsv":
                text = _separated(read_text(path, kind), path, "\t", ";", ",")
                return pl.read_csv(io.StringIO(text), infer_schema=False, separator="\t", quote_char=None)
            case ".parquet":
                if not path.is_file():
                    raise BadInput(f"there is no file {path}; name a file that holds {kind}")
                return pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = shorten(first_line(error), 200, placeholder=" ...")
        raise BadInput(f"{path} cannot be read as a table ({reason}); give {kind}") from error
    raise BadInput(
        f"{path}: a table is read from .jsonl, .json, .csv, .tsv or .parquet; save it as one of these"
    )


def _separated(text: str, path: Path, separator: str, *others: str) -> str:
    """The text. Raises BadInput if its lines, or the names in the first, are parted by other characters."""
    if "\r" in text.strip("\r\n") and "\n" not in text:
        raise BadInput(
            f"{path} is a single line, in which carriage returns are where rows may have ended; save it with "
            "line ends of Unix or of Windows"
        )
    names = text.lstrip("\r\n").split("\n", 1)[0]
    found = [each for each in others if each in names and separator not in names]
    if found:
        raise BadInput(f"{path} parts its columns by {found[0]!r}; save it with commas as .csv, or as .jsonl")
    return text


def _json_objects(path: Path, kind: str) -> pl.DataFrame:
    text = read_text(path, kind)
    lines, unit = text.split("\n"), "line"
    if text.lstrip().startswith("["):
        unit = "row"
        try:
            lines = [json.dumps(row) for row in json.loads(text)]
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{path} is no list of JSON objects ({error}); give {kind}") from error
    rows: list[Any] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict | str):
            raise BadInput(
                f'{path}, {unit} {number}: this is no JSON object; give one a line, {{"text": ...}}'
            )
        if type(row) is not type(next(iter(rows), row)):
            raise BadInput(f"{path}, {unit} {number}: it mixes strings and objects; give only one of them")
        refuse_half_pair(row, f"{path}, {unit} {number}")
        rows.append(row)
    if not rows:
        raise BadInput(f"{path} has no examples; give {kind}")
    rows = [{"text": row} if isinstance(row, str) else row for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    # Labels may be of several types: each value is kept as it is.
    return pl.DataFrame({name: pl.Series([row.get(name) for row in rows], dtype=pl.Object) for name in names})


def refuse_half_pair(read: object, place: str) -> None:
    """Raise BadInput for half a surrogate pair: JSON, of which this was read, can hold one, and no text."""
    try:
        json.dumps(read, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"{place}: there is half a surrogate pair; write the file again") from error
    except RecursionError as error:
        raise BadInput(f"{place}: this is nested too deeply; write the file again") from error
