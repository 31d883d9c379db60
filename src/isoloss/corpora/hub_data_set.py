"""Documents of a data set on a hub, such as the paper's OpenWebText and BookCorpus."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path

from isoloss.corpora.data_sets import load_data_set
from isoloss.corpora.documents import Document
from isoloss.errors import BadInput, IsolossError
from isoloss.progress import Progress


@dataclass(frozen=True)
class HubDataSet:
    """A `DocumentSource`: the rows of a data set that `datasets.load_dataset` reads, a document each.

    `name` is a hub's or a folder's, and may end in ":CONFIGURATION". Downloads are kept in the hub's own
    cache, where an interrupted one goes on; with `streaming` nothing is kept but what is made of it, and an
    interrupted preparation reads from the first row again. A row's text is in `column`. BookCorpus's rows
    are sentences: pack them across documents.
    """

    name: str
    split: str = "train"
    column: str = "text"
    streaming: bool = False

    @cached_property
    def digest(self) -> str:
        """See `DocumentSource`: a hub's data set is named by what is asked for, a folder's by its files.

        What a hub has under a name may change; the prepared corpus then stays what it was.
        """
        digest = hashlib.sha256(repr((self.name, self.split, self.column)).encode())
        folder = Path(self.name.partition(":")[0])
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            if path.is_file():
                with path.open("rb") as file:
                    content = hashlib.file_digest(file, "sha256").hexdigest()
                digest.update(f"{path.relative_to(folder)} {content}".encode())
        return digest.hexdigest()

    def size(self, cache: Path) -> int:  # noqa: ARG002
        """See `DocumentSource`: nobody knows."""
        return 0

    def documents(self, cache: Path, progress: Progress) -> Iterator[Document]:  # noqa: ARG002
        """See `DocumentSource`; raises BadInput as `load_data_set`, and where the column is missing."""
        rows = iter(load_data_set(self.name, split=self.split, streaming=self.streaming))
        for number in count(1):
            try:
                row = next(rows, None)
            except Exception as error:  # of the network, by whatever package reads from it
                reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
                raise IsolossError(
                    f"{self.name} cannot be read after row {number - 1} ({reason}); start again to go on"
                ) from error
            if row is None:
                return
            text = row.get(self.column, 0)
            if text is None:  # a blank row, as in Parquet files
                continue
            if not isinstance(text, str):
                raise BadInput(
                    f"{self.name}, row {number}: there is no text under '{self.column}', but "
                    f"{', '.join(row)}; name the column that holds the text"
                )
            if text.strip():
                yield Document(text, f"{self.name}, row {number}")
