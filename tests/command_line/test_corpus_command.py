"""`isoloss corpus` prepares, describes the corpus, and answers a mistake with one line."""

import json

import pytest
from called import answer, output_of, refused

from isoloss.command_line.corpus import _source
from isoloss.corpora.data_sets import HubDataSet
from isoloss.corpora.documents import LocalFiles, local_files
from isoloss.corpora.fetched_package import Books, Reviews
from isoloss.corpora.prepared_corpus import CorpusRequest, prepared_corpus
from isoloss.corpora.vocabulary import OwnVocabulary


def run(capsys, *arguments):
    return answer(capsys, "corpus", *arguments)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "a.txt"
    lines = [f"the cat number {number} sat on mat number {number * number}" for number in range(60)]
    path.write_text("\n".join([*lines, lines[0]]))
    return path


def test_a_corpus_is_prepared_and_shown(text, tmp_path, capsys):
    options = ("--vocabulary", 100, "--length", 16, "--validation-share", 0.2, "--cache", tmp_path)
    output = output_of(run(capsys, text, *options, "--json"))
    facts = json.loads(output)
    request = CorpusRequest(local_files([text]), OwnVocabulary(100), length=16, validation_share=0.2)
    corpus = prepared_corpus(request, tmp_path)
    assert facts["folder"] == str(corpus.folder)
    assert (facts["documents"], facts["duplicates"], facts["length"]) == (61, 1, 16)
    assert facts["tokens"] == len(corpus.tokenizer)
    training = facts["training"]
    assert training["words"] == corpus.counts.training.words
    assert training["padding_share"] == pytest.approx(1 - training["words"] / (15 * training["sequences"]))

    output = output_of(run(capsys, text, *options))
    assert "61 documents, 1 of them duplicates, left out" in output
    assert f"in {corpus.folder}" in output
    assert [line.split()[0] for line in output.splitlines() if "training" in line or "validation" in line]


def test_short_documents_are_told_how_to_be_packed(tmp_path, capsys):
    path = tmp_path / "a.txt"
    path.write_text("\n".join(f"cat {number}" for number in range(200)))
    options = ("--vocabulary", 100, "--length", 32, "--cache", tmp_path)
    assert "--across-documents packs them end to end" in run(capsys, path, *options)[1]
    assert "--across-documents" not in run(capsys, path, *options, "--across-documents")[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "no text is named"),
        (("/dev/null",), "/dev/null is a device or a pipe; name a file that holds documents"),
        (("books", "reviews"), "there is no file books, and the books that pip fetches are a corpus alone"),
        (("{good}", "reviews"), "name them alone, or files alone"),
        (("{bad}",), "bad.txt, line 2: this is not UTF-8 text"),
        (("{bad}", "--tokenizer", "x", "--vocabulary", "100"), "give one of the two"),
        (("{good}", "--vocabulary", "0"), "at least 100 pieces, not 0"),
        (("{good}",), "good.txt: of 1 document, 0 went into the training part, which needs at least 1"),
        (("{good}", "--streaming"), "--streaming is of a data set on a hub, which"),
        (("{good}", "--column", "body"), "good.txt has no columns; leave it out"),
        (("books", "--document", "file"), "books has documents of its own; leave --document out"),
        (("{table}", "--document", "file"), "table.jsonl has a document a row; leave it out"),
        (("{texts}", "--document", "file"), "--document file is of files that are named; name those of"),
        (("{model}",), "model is the folder of a model, not a text; name the files that hold the text"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, capsys, arguments, sentence):
    (tmp_path / "bad.txt").write_bytes(b"One.\n\xff")
    (tmp_path / "good.txt").write_text("One.\n")
    (tmp_path / "table.jsonl").write_text('{"text": "One."}\n')
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("One.\n")
    named = {"bad": "bad.txt", "good": "good.txt", "table": "table.jsonl", "model": "model", "texts": "texts"}
    files = {name: tmp_path / path for name, path in named.items()}
    given = [each.format_map(files) for each in arguments]
    assert sentence in refused(capsys, "corpus", *given, "--cache", tmp_path)


def test_names_stand_for_what_is_fetched_and_for_a_hubs_data_sets(tmp_path):
    def of(*text):
        return _source(text, "line", "text", False)

    assert (of("books"), of("reviews")) == (Books(), Reviews())
    assert of("Skylion007/openwebtext") == HubDataSet("Skylion007/openwebtext")
    (tmp_path / "books").write_text("a")
    assert isinstance(of(str(tmp_path / "books")), LocalFiles)
