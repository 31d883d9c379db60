"""Documents in files of one's own."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from isoloss.corpora.documents import Document, TextUnit, file_digest, file_documents
from isoloss.progress import Progress


@dataclass(frozen=True)
class LocalFiles:
    """A `DocumentSource`: these files' documents, one file after the other. Make one with `local_files`."""

    paths: tuple[Path, ...]
    unit: TextUnit
    column: str
    digest: str

    def size(self, cache: Path) -> int:  # noqa: ARG002
        """See `DocumentSource`."""
        return sum(path.stat().st_size for path in self.paths)

    def documents(self, cache: Path, progress: Progress) -> Iterator[Document]:  # noqa: ARG002
        """See `DocumentSource`, and `file_documents` for how a file is read and what is refused."""
        for path in self.paths:
            yield from file_documents(path, self.unit, self.column)


def local_files(paths: Sequence[Path], unit: TextUnit = "line", column: str = "text") -> LocalFiles:
    """Files to be read as `file_documents` does, named by contents, endings, and how they are read.

    Reads each file once; raises BadInput as `file_digest` does.
    """
    digest = hashlib.sha256(repr((unit, column)).encode())
    for path in paths:
        digest.update(f"{path.suffix.lower()} {file_digest(path)}".encode())
    return LocalFiles(tuple(paths), unit, column, digest.hexdigest())
