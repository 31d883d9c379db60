"""Data sets of Hugging Face as corpora."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

from huggingface_hub import constants

from isoloss.corpora.documents import Document
from isoloss.corpora.token_sentences import TextCorpus
from isoloss.errors import BadInput, IsolossError
from isoloss.models.loading import hub_is_reachable
from isoloss.progress import Progress

SPLITS = ("validation", "test", "train")
"""Which part of a data set is read: the first of these that it has."""


def read_data_set(name: str, tokenizer: Any, longest: int | None) -> TextCorpus:
    """The texts of a data set, a sentence each: its column "text", or its only column of strings.

    `name` is what `datasets.load_dataset` takes, with ":CONFIGURATION" after it where there are several.
    Blank texts are left out. Raises BadInput where `datasets` is not installed, where there is no such data
    set, and where it has no texts.
    """
    loaded = load_data_set(name)
    split = next((split for split in SPLITS if split in loaded), next(iter(loaded)))
    texts = _texts(loaded[split], name)
    if not texts:
        raise BadInput(f"the data set {name} has no texts in its {split} part; choose another")
    return TextCorpus([text for _, text in texts], [line for line, _ in texts], tokenizer, longest)


def load_data_set(name: str, **options: Any) -> Any:
    """What `datasets.load_dataset` gives for a name, ":CONFIGURATION" after it where there are several.

    Raises BadInput where `datasets` is not installed and where it reads nothing.
    """
    try:
        import datasets
    except ImportError as error:
        raise BadInput(
            f"the data set {name} needs the package `datasets`; install isoloss[datasets], or give files"
        ) from error
    path, _, configuration = name.partition(":")
    try:
        with _without_vain_tries():
            return datasets.load_dataset(path, configuration or None, **options)
    except Exception as error:  # `datasets` raises many kinds, of several packages
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise BadInput(
            f"no data set can be read from {name}: {reason}; give a folder, or a hub's name where the hub "
            "can be reached, or fetch it where it can, carry its cache here and name that in HF_HOME, or "
            "fetch the texts elsewhere and give them as files"
        ) from error


@contextmanager
def _without_vain_tries() -> Iterator[None]:
    """Where the hub cannot be reached, what was fetched before answers at once, not after half a minute."""
    offline = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = offline or not hub_is_reachable()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = offline


def _texts(part: Any, name: str) -> list[tuple[int, str]]:
    columns: Sequence[str] = part.column_names
    first = part[0] if len(part) else {}
    strings = [column for column in columns if isinstance(first.get(column), str)]
    if "text" not in strings and len(strings) != 1:
        raise BadInput(
            f"the data set {name} has no column 'text' and not just one column of strings, but "
            f"{', '.join(columns)}; write its texts to a file and give --text"
        )
    column = "text" if "text" in strings else strings[0]
    return [(row, text) for row, text in enumerate(part[column], start=1) if text and text.strip()]


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
