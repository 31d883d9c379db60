"""Documents are read one at a time, from users' formats, and unreadable ones are named."""

import gzip
import json
import os
from pathlib import Path

import polars as pl
import pytest

import isoloss.corpora.documents as documents_module
from isoloss.corpora.documents import documents_digest, file_documents, local_files
from isoloss.errors import BadInput
from isoloss.progress import silent


@pytest.fixture
def written(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def read(path, **how):
    return [
        (document.text, document.place.removeprefix(str(path))) for document in file_documents(path, **how)
    ]


def test_a_line_or_a_file_of_text_is_a_document(written):
    path = written("a.txt", "\ufeffOne é.\r\n \nTwo.")
    assert read(path) == [("One é.", ", line 1"), ("Two.", ", line 3")]
    assert read(path, unit="file") == [("One é.\r\n \nTwo.", "")]


def test_lines_that_end_in_carriage_returns_are_not_one_document(written):
    for name, content in (
        ("a.txt", "One.\rTwo.\r"),
        ("b.jsonl", '"One."\r"Two."'),
        ("e.txt", "One.\rTwo.\n"),
    ):
        with pytest.raises(
            BadInput, match=r"is a single line, in which carriage returns .* save it with line"
        ):
            read(written(name, content))
    assert read(written("c.txt", "One.\rTwo.\r\nThree.\r\n")) == [
        ("One.\rTwo.", ", line 1"),
        ("Three.", ", line 2"),
    ]
    assert read(written("d.txt", "One.\r")) == [("One.", ", line 1")]


def test_json_lines_are_objects_or_strings(written):
    lines = [
        json.dumps({"text": "One.\nMore.", "label": 1}),
        "",
        json.dumps("Two."),
        json.dumps({"text": " "}),
        json.dumps({"text": None}),
        json.dumps({"text": "Six."}),
    ]
    path = written("a.jsonl", "\n".join(lines))
    assert read(path) == [("One.\nMore.", ", line 1"), ("Two.", ", line 3"), ("Six.", ", line 6")]
    assert read(written("b.ndjson", '{"body": "Three."}'), column="body") == [("Three.", ", line 1")]


def test_rows_of_parquet_are_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(documents_module, "ROWS_AT_ONCE", 2)
    path = tmp_path / "a.parquet"
    pl.DataFrame({"text": ["One.", None, "", "Four.", "Five."], "n": range(5)}).write_parquet(path)
    assert read(path) == [("One.", ", row 1"), ("Four.", ", row 4"), ("Five.", ", row 5")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'text,n\n"One,\nmore.",1\n,2\nTwo.,3\n'),
        ("a.json", '[{"text": "One,\\nmore."}, {"text": null}, {"text": "Two."}]'),
        ("a.json", '["One,\\nmore.", "", "Two."]'),
    ],
)
def test_rows_of_other_tables_are_documents(written, name, content):
    assert read(written(name, content)) == [("One,\nmore.", ", row 1"), ("Two.", ", row 3")]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.jsonl", '{"text": "One."}\n{"text": 2}', r"a.jsonl, line 2: there is no text under 'text'; name"),
        ("a.jsonl", '{"body": "One."}', r"a.jsonl, line 1: there is no text under 'text'"),
        ("a.jsonl", "\nnonsense", r"a.jsonl, line 2: this is not JSON"),
        ("a.csv", "title,body\n1,2", r"a.csv has no column 'text', but title, body; name the one that"),
        ("a.json", '[{"text": "One."}, {"text": 2}]', r"a.json, row 2: there is no text; name the column"),
        ("a.json", '["\\ud800"]', r"a.json, row 1: there is half a surrogate pair"),
        ("a.jsonl", '"\\ud800"', r"a.jsonl, line 1: there is half a surrogate pair"),
        ("a.parquet", "PAR1 no", r"a.parquet cannot be read as Parquet"),
        ("a.txt", b"One.\n\xff\n", r"a.txt, line 2: this is not UTF-8 text"),
        ("a.txt", gzip.compress(b"One.\n", mtime=0), r"a.txt is compressed; unpack it \(gunzip\)"),
        ("a.txt", b"One.\n" + b"x" * 100, r"a.txt, line 2: the line has more than 64 bytes"),
    ],
)
def test_what_cannot_be_read_is_named(written, monkeypatch, name, content, sentence):
    monkeypatch.setattr(documents_module, "LONGEST_DOCUMENT", 64)
    with pytest.raises(BadInput, match=sentence):
        read(written(name, content))


def test_a_row_group_of_parquet_is_read_once(tmp_path, monkeypatch):
    """Slices of the file would read it again for each slice."""
    path, asked = tmp_path / "a.parquet", []
    pl.DataFrame({"text": [f"text {row}" for row in range(5000)]}).write_parquet(path, row_group_size=5000)
    collect = pl.LazyFrame.collect
    monkeypatch.setattr(pl.LazyFrame, "collect", lambda table: asked.append(table) or collect(table))
    found = [(document.text, document.place) for document in file_documents(path)]
    assert found == [(f"text {row}", f"{path}, row {row + 1}") for row in range(5000)]
    assert not asked


def test_a_row_of_parquet_may_be_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(documents_module, "LONGEST_DOCUMENT", 10)
    pl.DataFrame({"text": ["short", "much longer"]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(BadInput, match=r"a.parquet, row 2: the text has more than 10 characters; write"):
        read(tmp_path / "a.parquet")


def test_a_file_without_the_column_says_which_it_has(tmp_path):
    pl.DataFrame({"body": ["One."], "text": [1]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(BadInput, match="has no column 'text' of texts, but body, text; name the one"):
        read(tmp_path / "a.parquet")


def test_a_whole_file_may_be_too_much_or_no_text(written, monkeypatch):
    with pytest.raises(BadInput, match="line 3: this is not UTF-8"):
        read(written("a.txt", b"One.\n\n\xe9"), unit="file")
    monkeypatch.setattr(documents_module, "LONGEST_DOCUMENT", 3)
    with pytest.raises(BadInput, match="more than 3 bytes, too many for one document"):
        read(written("b.txt", b"Four"), unit="file")


@pytest.mark.parametrize("at_once", [1, 2, 3, 4, 64])
@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"a\nb\n\xc3\n", 3),
        ("é\né\n".encode() + b"\xff", 3),
        (b"\xe2\x82", 1),
        (b"a\nb\0c\n", 2),
        (b"\n\n\xc3", 3),
        ("a\n€\n".encode() + b"\xff\n", 3),
    ],
)
def test_bytes_that_are_no_text_are_found_before_any_work(written, monkeypatch, content, line, at_once):
    monkeypatch.setattr(documents_module, "BYTES_AT_ONCE", at_once)
    with pytest.raises(BadInput, match=f"a.txt, line {line}: this is not UTF-8 text"):
        documents_digest(written("a.txt", content))


def test_files_that_are_not_there_are_named(written, tmp_path):
    with pytest.raises(BadInput, match=r"there is no file .*none\.txt"):
        documents_digest(tmp_path / "none.txt")
    with pytest.raises(BadInput, match="is a folder; name the files inside it"):
        documents_digest(tmp_path)
    with pytest.raises(BadInput, match=r"empty\.txt is empty"):
        documents_digest(written("empty.txt", ""))
    for endless in ("/dev/zero", tmp_path / "pipe"):
        if not Path(endless).exists():
            os.mkfifo(endless)
        with pytest.raises(BadInput, match="is a device or a pipe; name a file that holds documents"):
            documents_digest(Path(endless))


def test_files_are_named_by_what_is_in_them(written):
    one, two = written("1.txt", "One.\n"), written("2.txt", "Two.\n")
    source = local_files([one, two])
    assert [document.text for document in source.documents(one.parent, silent)] == ["One.", "Two."]
    assert source.size(one.parent) == 10
    named = {
        source.digest,
        local_files([two, one]).digest,
        local_files([one]).digest,
        local_files([one, two], unit="file").digest,
        local_files([one, two], column="body").digest,
        local_files([written("1.md", "One.\n"), two]).digest,
    }
    assert len(named) == 6
    assert local_files([written("3.txt", "One.\n"), two]).digest == source.digest
    assert local_files([written("1.txt", "One!\n"), two]).digest not in named
