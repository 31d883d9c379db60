"""Documents: texts and their locations, read from files one at a time."""

import codecs
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import polars as pl

from isoloss.corpora.tables import read_table, refuse_half_pair
from isoloss.errors import BadInput, first_line
from isoloss.files import refuse_compressed, refuse_endless
from isoloss.progress import Progress

TextUnit = Literal["line", "file"]
"""What counts as a document in a plain text file: each line, or the whole file."""

LONGEST_DOCUMENT = 1 << 26
"""In bytes: 64 MiB, ten times the King James Bible. Anything longer is not a document but a misread file."""

WHOLE_TABLES = (".csv", ".tsv", ".json")
"""Suffixes of tables that are not read in parts."""

ROWS_AT_ONCE = 1024
BYTES_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Document:
    """A text and where it was read from: "books.txt, line 3"."""

    text: str
    place: str


@runtime_checkable
class DocumentSource(Protocol):
    """A source of a corpus's documents; a frozen dataclass that can be pickled."""

    @property
    def digest(self) -> str:
        """Identifies the documents by everything that they depend on."""

    def size(self, cache: Path) -> int:
        """Approximate number of bytes to be read, for progress; 0 if unknown."""

    def documents(self, cache: Path, progress: Progress) -> Iterator[Document]:
        """The documents in order, without blank ones; anything fetched is kept in `cache`."""


def file_documents(path: Path, unit: TextUnit = "line", column: str = "text") -> Iterator[Document]:
    r"""The documents of a file, read according to its suffix; blank ones are left out.

    `.jsonl` and `.ndjson`: per line, a JSON object with its text under `column`, or a JSON string.
    `.parquet`, and `.csv`, `.tsv` and `.json` (see `read_table`): one document per row, its text in `column`.
    Anything else is UTF-8 text: a document is a line or, with `unit` "file", the whole file. Holds one
    document in memory, for a Parquet file one row group, and any other table as a whole. Raises BadInput,
    naming file and line, for anything else, for a document of more than 64 MiB, and for a single line in
    which carriage returns alone may end lines; in a file of several lines they are white space.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "two.txt"
    >>> _ = path.write_text("One.\n\nTwo.\n")
    >>> [(document.text, document.place[-15:]) for document in file_documents(path)]
    [('One.', 'two.txt, line 1'), ('Two.', 'two.txt, line 3')]
    """
    match path.suffix.lower():
        case ".jsonl" | ".ndjson":
            documents = _json_documents(path, column)
        case ".parquet":
            documents = _parquet_documents(path, column)
        case suffix if suffix in WHOLE_TABLES:
            documents = _table_documents(path, column)
        case _:
            documents = _lines(path) if unit == "line" else _whole(path)
    return (document for document in documents if document.text.strip())


def documents_digest(path: Path) -> str:
    """SHA-256 of a file that is to be read as documents, in one pass over it.

    Raises BadInput if there is no such file, if it is empty or unreadable and, naming the line, if it is not
    UTF-8 text (Parquet files aside): before any work is done on it.
    """
    digest, decoder, line = hashlib.sha256(), codecs.getincrementaldecoder("utf-8")(), 1
    try:
        refuse_endless(path, "documents")
        with path.open("rb") as file:
            while piece := file.read(BYTES_AT_ONCE):
                digest.update(piece)
                if path.suffix.lower() != ".parquet":
                    line = _checked(path, piece, decoder, line)
            if not file.tell():
                raise BadInput(f"{path} is empty; give a file with documents")
            decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise _no_text(path, line) from error
    except FileNotFoundError as error:
        raise BadInput(f"there is no file {path}; name a file with documents") from error
    except IsADirectoryError as error:
        raise BadInput(f"{path} is a folder; name the files inside it") from error
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}; check its permissions") from error
    return digest.hexdigest()


def _checked(path: Path, piece: bytes, decoder: codecs.IncrementalDecoder, line: int) -> int:
    """The number of the line in which the piece ends, if it starts in line `line`."""
    if b"\0" in piece:
        raise _no_text(path, line + piece.count(b"\n", 0, piece.index(b"\0")))
    pending = len(decoder.getstate()[0])  # first bytes of a character that the previous piece's end cut
    try:
        decoder.decode(piece)
    except UnicodeDecodeError as error:
        raise _no_text(path, line + piece.count(b"\n", 0, max(0, error.start - pending))) from error
    return line + piece.count(b"\n")


def _no_text(path: Path, line: int) -> BadInput:
    with path.open("rb") as file:
        refuse_compressed(path, file.read(8))
    return BadInput(
        f"{path}, line {line}: this is not UTF-8 text; write the file in UTF-8, or give .jsonl or .parquet"
    )


def _lines(path: Path) -> Iterator[Document]:
    with path.open("rb") as file:
        for number in count(1):
            raw = file.readline(LONGEST_DOCUMENT + 1)
            if not raw:
                return
            if len(raw) > LONGEST_DOCUMENT:
                raise BadInput(
                    f"{path}, line {number}: the line has more than {LONGEST_DOCUMENT:,} bytes; write a "
                    "document a line"
                )
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise _no_text(path, number) from error
            if number == 1 and "\r" in text.rstrip("\r\n") and not file.peek(1):
                raise BadInput(
                    f"{path} is a single line, in which carriage returns are where lines may have ended; "
                    "save it with line ends of Unix or of Windows"
                )
            yield Document(text.rstrip("\r\n"), f"{path}, line {number}")


def _whole(path: Path) -> Iterator[Document]:
    if path.stat().st_size > LONGEST_DOCUMENT:
        raise BadInput(
            f"{path} has more than {LONGEST_DOCUMENT:,} bytes, too many for one document; cut it, or read a "
            "document a line"
        )
    content = path.read_bytes()
    try:
        yield Document(content.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        raise _no_text(path, content.count(b"\n", 0, error.start) + 1) from error


def _json_documents(path: Path, column: str) -> Iterator[Document]:
    for line in _lines(path):
        if not line.text.strip():
            continue
        try:
            read = json.loads(line.text)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{line.place}: this is not JSON ({error}); write a JSON object a line") from error
        text = read.get(column, read) if isinstance(read, dict) else read
        if text is None and isinstance(read, dict):  # a row without a text, as in other tables
            continue
        if not isinstance(text, str):
            raise BadInput(
                f"{line.place}: there is no text under '{column}'; name the column that holds the text"
            )
        refuse_half_pair(text, line.place)
        yield Document(text, line.place)


def _table_documents(path: Path, column: str) -> Iterator[Document]:
    table = read_table(path, f"rows with a column '{column}'")
    if column not in table.columns:
        there = ", ".join(table.columns)
        raise BadInput(f"{path} has no column '{column}', but {there}; name the one that has the texts")
    yield from _rows(path, table[column].to_list())


def _parquet_documents(path: Path, column: str) -> Iterator[Document]:
    try:
        table = pl.scan_parquet(path)
        types = dict(table.collect_schema())
        if types.get(column) != pl.String:
            raise BadInput(
                f"{path} has no column '{column}' of texts, but {', '.join(types)}; name the one that has "
                "them"
            )
        # Slices of the table would read the whole row group again for each.
        batches = table.select(column).collect_batches(chunk_size=ROWS_AT_ONCE, lazy=True)
        yield from _rows(path, (text for batch in batches for text in batch[column]))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise BadInput(f"{path} cannot be read as Parquet ({first_line(error)}); write it again") from error


def _rows(path: Path, texts: Iterable[object]) -> Iterator[Document]:
    """The rows of a table that have a text."""
    for row, text in enumerate(texts, start=1):
        if text is None:
            continue
        if not isinstance(text, str):
            raise BadInput(f"{path}, row {row}: there is no text; name the column that holds the text")
        if len(text) > LONGEST_DOCUMENT:
            raise BadInput(
                f"{path}, row {row}: the text has more than {LONGEST_DOCUMENT:,} characters; write a "
                "document a row"
            )
        yield Document(text, f"{path}, row {row}")


@dataclass(frozen=True)
class GivenDocuments:
    """A `DocumentSource` of given texts."""

    texts: tuple[str, ...]

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr(self.texts).encode()).hexdigest()

    def size(self, cache: Path) -> int:
        return sum(len(text.encode()) for text in self.texts)

    def documents(self, cache: Path, progress: Progress) -> Iterator[Document]:
        return (Document(text, f"text {number}") for number, text in enumerate(self.texts, start=1))


@dataclass(frozen=True)
class LocalFiles:
    """A `DocumentSource`: the documents of these files, one file after the other; see `local_files`."""

    paths: tuple[Path, ...]
    unit: TextUnit
    column: str
    digest: str

    def size(self, cache: Path) -> int:
        return sum(path.stat().st_size for path in self.paths)

    def documents(self, cache: Path, progress: Progress) -> Iterator[Document]:
        """See `DocumentSource`, and `file_documents` for how a file is read and what is refused."""
        for path in self.paths:
            yield from file_documents(path, self.unit, self.column)


def local_files(paths: Sequence[Path], unit: TextUnit = "line", column: str = "text") -> LocalFiles:
    """Files to be read as by `file_documents`, identified by contents, suffixes, and how they are read.

    Reads each file once; raises BadInput as `documents_digest` does.
    """
    digest = hashlib.sha256(repr((unit, column)).encode())
    for path in paths:
        suffix = path.suffix.lower()
        kind = f"table {suffix}" if suffix in WHOLE_TABLES else suffix  # once they were read as lines
        digest.update(f"{kind} {documents_digest(path)}".encode())
    return LocalFiles(tuple(paths), unit, column, digest.hexdigest())
