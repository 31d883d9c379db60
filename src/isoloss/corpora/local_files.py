"""Documents in files of one's own."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from isoloss.corpora.documents import Document, TextUnit, file_digest, file_documents
from isoloss.progress import Progress


@dataclass(frozen=True)
class LocalFiles:
    """A `DocumentSource`: the documents of these files, one file after the other; see `file_documents`."""

    paths: tuple[Path, ...]
    unit: TextUnit = "line"
    column: str = "text"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the files' contents in their order, their endings, and how they are read.

        Reads every file once; raises BadInput as `file_digest` does.
        """
        digest = hashlib.sha256(repr((self.unit, self.column)).encode())
        for path in self.paths:
            digest.update(f"{path.suffix.lower()} {file_digest(path)}".encode())
        return digest.hexdigest()

    def size(self, cache: Path) -> int:  # noqa: ARG002
        """See `DocumentSource`."""
        return sum(path.stat().st_size for path in self.paths)

    def documents(self, cache: Path, progress: Progress) -> Iterator[Document]:  # noqa: ARG002
        """See `DocumentSource`."""
        for path in self.paths:
            yield from file_documents(path, self.unit, self.column)
