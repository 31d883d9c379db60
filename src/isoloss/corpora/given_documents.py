"""Documents that are at hand: for tests, and for the smallest scale."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from isoloss.corpora.documents import Document
from isoloss.progress import Progress


@dataclass(frozen=True)
class GivenDocuments:
    """A `DocumentSource` of these texts."""

    texts: tuple[str, ...]

    @property
    def digest(self) -> str:
        """See `DocumentSource`."""
        return hashlib.sha256(repr(self.texts).encode()).hexdigest()

    def size(self, cache: Path) -> int:  # noqa: ARG002
        """See `DocumentSource`."""
        return sum(len(text.encode()) for text in self.texts)

    def documents(self, cache: Path, progress: Progress) -> Iterator[Document]:  # noqa: ARG002
        """See `DocumentSource`."""
        return (Document(text, f"text {number}") for number, text in enumerate(self.texts, start=1))
