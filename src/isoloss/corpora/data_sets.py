"""Hugging Face data sets as corpora, if a hub or its cache has them."""

import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import constants

from isoloss.corpora.documents import Document
from isoloss.corpora.token_sentences import TextCorpus
from isoloss.errors import BadInput, IsolossError, first_line
from isoloss.files import file_digest
from isoloss.models.names import SECONDS_FOR_THE_HUB, hub_is_reachable
from isoloss.progress import Progress

if TYPE_CHECKING:
    from huggingface_hub import DatasetInfo

PARQUET = "refs/convert/parquet"
"""The revision under which the hub keeps a data set's Parquet files, if its own revision has a script that
makes them: no version of `datasets` from 4 on runs one."""

SPLITS = ("validation", "test", "train")
"""Which split of a data set is read: the first of these that it has."""


def read_data_set(name: str) -> TextCorpus:
    """The texts of a data set, one sentence each: its column "text", or its only column of strings.

    `name` is as for `datasets.load_dataset`, followed by ":CONFIGURATION" if there are several. Blank texts
    are left out. Raises BadInput if `datasets` is not installed, if there is no such data set, or if it has
    no texts.
    """
    loaded = load_data_set(name)
    split = next((split for split in SPLITS if split in loaded), next(iter(loaded)))
    texts = _texts(loaded[split], name)
    if not texts:
        raise BadInput(f"the data set {name} has no texts in its {split} part; choose another")
    return TextCorpus([text for _, text in texts], [line for line, _ in texts])


def load_data_set(name: str, *, exported: bool = False, **options: Any) -> Any:
    """What `datasets.load_dataset` returns for a name, with ":CONFIGURATION" if there are several.

    Of a data set that is a script, unless a revision is asked for, the hub's `PARQUET` files; `exported` says
    that the revision is of those. Raises BadInput if `datasets` is not installed or cannot read the data set.
    """
    path, _, configuration = name.partition(":")
    if Path(path).is_dir():
        path = str(Path(path).resolve())  # `datasets` calls a folder by its name, and "." has none
    try:
        import datasets
    except ImportError as error:
        what = f"the folder {name}, as a data set," if Path(path).is_dir() else f"the data set {name}"
        raise BadInput(
            f"{what} needs the package `datasets`; install isoloss[datasets], or give files"
        ) from error
    try:
        with _at_once_and_quietly():
            if not exported and ("revision" in options or not _is_script(path)):
                return datasets.load_dataset(path, configuration or None, **options)
            options = {"revision": PARQUET, **options}
            folder = _folder_of(path, configuration, options["revision"])
            return datasets.load_dataset(path, data_dir=folder, **options)
    except BadInput:
        raise
    except Exception as error:  # `datasets` raises many types, from several packages
        reason = _reason(error)
        fetched = "or fetch it where it can, carry its cache here and name that in HF_HOME, "
        if configuration and reason.startswith("Couldn't find cache"):
            fetched = "as it has to be for a configuration of a data set that is a script, "
        raise BadInput(
            f"no data set can be read from {name}: {reason}; give a folder, or a hub's name where the hub "
            f"can be reached, {fetched}or fetch the texts elsewhere and give them as files"
        ) from error


def _reason(error: BaseException) -> str:
    """What is wrong, as a clause: the cause of an error that tells none, and what an error's title is of."""
    if "error occurred while generating" in str(error) and error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) < 2 or not re.match(r"Config name|\d{3} \w+ Error", lines[0]):
        return first_line(error)
    return f"{lines[0]} {lines[1]}".rstrip(".")


def _folder_of(path: str, configuration: str, revision: str) -> str | None:
    """The folder of a configuration among the hub's `PARQUET` files; None for the only one.

    `datasets` knows no configurations there, and would read all of them as one. Raises BadInput if there is
    none of that name, or if one has to be named.
    """
    paths = [file.split("/") for file in _files_at(path, revision)]
    known = sorted({parts[0] for parts in paths if len(parts) == 3 and parts[2].endswith(".parquet")})
    if known and configuration not in (known if len(known) > 1 else ["", *known]):
        asked = f"no configuration {configuration!r}" if configuration else "several configurations"
        raise BadInput(
            f"the data set {path} has {asked}; name one of {', '.join(known)}, such as {path}:{known[0]}"
        )
    return configuration or None


def _is_script(path: str) -> bool:
    """Whether the hub's data set is a script, as far as the hub can be asked."""
    return f"{path.rpartition('/')[2]}.py" in _files_at(path, None)


def _files_at(path: str, revision: str | None) -> list[str]:
    """The files of a hub's data set at a revision; none of a folder, or where the hub cannot be asked."""
    found = _known_of(path, revision)
    return [] if found is None else [each.rfilename for each in found.siblings or ()]


def _known_of(path: str, revision: str | None) -> "DatasetInfo | None":
    """What the hub says of a data set at a revision; None of a folder, or where it cannot be asked."""
    if Path(path).exists() or constants.HF_HUB_OFFLINE or not hub_is_reachable():
        return None
    from huggingface_hub import HfApi

    try:
        return HfApi().dataset_info(path, revision=revision, timeout=SECONDS_FOR_THE_HUB)
    except Exception:  # the client raises many types; reading, which comes next, says what is wrong
        return None


@contextmanager
def _at_once_and_quietly() -> Iterator[None]:
    """If the hub cannot be reached, use previously fetched files at once, not after half a minute.

    Where no terminal is, such as in a file, the bars of `datasets` would be one long line.
    """
    import datasets

    offline, bars = constants.HF_HUB_OFFLINE, not datasets.are_progress_bars_disabled()
    constants.HF_HUB_OFFLINE = offline or not hub_is_reachable()
    if bars and not sys.stderr.isatty():
        datasets.disable_progress_bars()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = offline
        if bars and not sys.stderr.isatty():
            datasets.enable_progress_bars()


def _texts(part: Any, name: str) -> list[tuple[int, str]]:
    columns: Sequence[str] = part.column_names
    # `datasets` reads up to the first value that is not missing.
    first = {name: next((value for value in part[name] if value is not None), None) for name in columns}
    strings = [name for name, value in first.items() if isinstance(value, str)]
    if "text" not in strings and len(strings) != 1:
        raise BadInput(
            f"the data set {name} has no column 'text' and not just one column of strings, but "
            f"{', '.join(columns)}; write its texts to a file and give --text"
        )
    column = "text" if "text" in strings else strings[0]
    return [(row, text) for row, text in enumerate(part[column], start=1) if text and text.strip()]


@dataclass(frozen=True)
class HubDataSet:
    """A `DocumentSource`: the rows of a data set that `datasets.load_dataset` reads, one document each.

    `name` is that of a hub's data set or a folder, and may end in ":CONFIGURATION". Downloads are kept in the
    hub's cache, and interrupted ones resume there; with `streaming`, only what is made of the data is
    kept, and an interrupted preparation reads from the first row again. A row's text is in `column`.
    BookCorpus's rows are sentences: pack them across documents. `revision` is the hub's name of a version,
    by default its latest, or `PARQUET` of a script; rows are read from the commit that it stands for when
    first asked (`commit`).
    """

    name: str
    split: str = "train"
    column: str = "text"
    streaming: bool = False
    revision: str | None = None

    @cached_property
    def commit(self) -> str | None:
        """The commit that is read; None of a folder, or where the hub cannot be asked."""
        found = _known_of(self.name.partition(":")[0], self._version)
        return None if found is None else found.sha

    @cached_property
    def _version(self) -> str | None:
        if self.revision is None and _is_script(self.name.partition(":")[0]):
            return PARQUET
        return self.revision

    @property
    def is_first_part(self) -> bool:
        """Whether of these rows the hub has made Parquet files of the first gigabytes alone."""
        path, _, configuration = self.name.partition(":")
        files = _files_at(path, PARQUET) if self._version == PARQUET else []
        beginning = f"{configuration}/" if configuration else ""
        mark = f"/partial-{self.split}/"
        return any(file.startswith(beginning) and mark in file for file in files)

    @cached_property
    def digest(self) -> str:
        """See `DocumentSource`: a hub's data set is identified by its request, a folder's by its files.

        The content under a name on a hub may change; the prepared corpus then stays as it was.
        """
        asked = (self.name, self.split, self.column, *((self.revision,) if self.revision else ()))
        digest = hashlib.sha256(repr(asked).encode())
        folder = Path(self.name.partition(":")[0])
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            if path.is_file():
                digest.update(f"{path.relative_to(folder)} {file_digest(path)}".encode())
        return digest.hexdigest()

    def size(self, cache: Path) -> int:
        """See `DocumentSource`: unknown."""
        return 0

    def documents(self, cache: Path, progress: Progress) -> Iterator[Document]:
        """See `DocumentSource`; raises BadInput as `load_data_set`, and if the column is missing."""
        revision = self.commit or self._version
        at: dict[str, Any] = {} if revision is None else {"revision": revision}
        at |= {"exported": True} if self._version == PARQUET else {}
        if self.is_first_part:
            progress("fetching", 0, 1, f"{self.name}: the hub has only the first part of it as Parquet files")
        rows = iter(load_data_set(self.name, split=self.split, streaming=self.streaming, **at))
        for number in count(1):
            try:
                row = next(rows, None)
            except Exception as error:  # network errors, from whichever package reads
                raise IsolossError(
                    f"{self.name} cannot be read after row {number - 1} ({first_line(error)}); start again "
                    "to go on"
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
