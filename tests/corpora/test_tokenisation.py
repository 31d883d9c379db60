"""Tokenising a corpus: an interruption changes nothing, and text that no tokenizer accepts is named."""

import itertools
from dataclasses import replace

import pytest
from small_corpora import WORDS, request_for, with_copies

import isoloss.corpora.tokenisation as tokenisation
from isoloss.corpora.documents import DocumentSource
from isoloss.corpora.prepared_corpus import prepared_corpus
from isoloss.corpora.vocabulary import NamedTokenizer
from isoloss.errors import BadInput
from isoloss.models.tokenizer import word_tokenizer


@pytest.fixture(scope="module")
def lines():
    return with_copies()


@pytest.fixture
def words(tmp_path):
    """A tokenizer without separator and with none for unknown words."""
    word_tokenizer([*WORDS, "[UNK]"], 8).save_pretrained(tmp_path / "words")
    return NamedTokenizer(str(tmp_path / "words"))


class InterruptedSource:
    """The documents of another source, with Ctrl-C after some of them on one of the passes over them."""

    def __init__(self, source: DocumentSource, after: int, time: int) -> None:
        self.source, self.after, self.digest, self.time = source, after, source.digest, time
        self.asked = 0

    def size(self, cache):
        return 0

    def documents(self, cache, progress):
        self.asked += 1
        for number, document in enumerate(self.source.documents(cache, progress)):
            if self.asked == self.time and number == self.after:
                raise KeyboardInterrupt
            yield document


@pytest.mark.parametrize(
    ("file", "harm"),
    [
        ("training.tokens", lambda content: b""),
        ("validation.documents", lambda content: bytes([content[0] ^ 1]) + content[1:]),
        ("journal.json", lambda content: content.replace(b"1", b"2", 1)),
        pytest.param(
            "tokenizer/tokenizer.json",
            lambda content: content.replace(b"##a", b"##b", 1),
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_what_is_damaged_of_an_interrupted_preparation_is_made_again(
    lines, monkeypatch, tmp_path, file, harm
):
    monkeypatch.setattr(tokenisation, "SHARD_CHARACTERS", 500)
    request = request_for(tmp_path / "a.txt", lines)
    interrupted = replace(request, source=InterruptedSource(request.source, 90, 3))
    with pytest.raises(KeyboardInterrupt):
        prepared_corpus(interrupted, tmp_path / "cut")
    (left,) = (tmp_path / "cut" / "corpora").glob(".*.part")
    whole = (left / file).read_bytes()
    (left / file).write_bytes(harm(whole))
    assert (left / file).read_bytes() != whole
    told = []
    made = prepared_corpus(request, tmp_path / "cut", lambda *report: told.append(report))
    assert made.digest == prepared_corpus(request, tmp_path / "whole").digest
    assert any("is not what was written: the corpus is prepared from" in report[-1] for report in told)


@pytest.mark.parametrize("across", [False, True])
def test_an_interrupted_preparation_goes_on_to_the_same_bits(lines, monkeypatch, tmp_path, across):
    monkeypatch.setattr(tokenisation, "SHARD_CHARACTERS", 500)
    request = request_for(tmp_path / "a.txt", lines, across_documents=across)
    whole = prepared_corpus(request, tmp_path / "whole")
    # An own vocabulary reads them all twice before any is tokenised, and is stored.
    for after, time in ((40, 3), (90, 1)):
        interrupted = replace(request, source=InterruptedSource(request.source, after, time))
        with pytest.raises(KeyboardInterrupt):
            prepared_corpus(interrupted, tmp_path / "cut")
        # A crash may leave more than the journal records.
        (left,) = (tmp_path / "cut" / "corpora").glob(".*.part")
        with (left / "training.tokens").open("ab") as file:
            file.write(b"torn")

    told, encoded, encode = [], [], tokenisation._encoded

    def noted(tokenizer, some, kind):
        encoded.extend(some)
        return encode(tokenizer, some, kind)

    monkeypatch.setattr(tokenisation, "_encoded", noted)
    resumed = prepared_corpus(request, tmp_path / "cut", lambda *report: told.append(report))
    assert resumed == replace(whole, folder=resumed.folder)
    for path in whole.folder.iterdir():
        if path.is_file():
            assert path.read_bytes() == (resumed.folder / path.name).read_bytes()
    assert 0 < len(encoded) < 60  # of 120
    assert told[-1] == ("tokenising", 1, 1)
    parts = {f"{part}.{what}" for part in ("training", "validation") for what in ("documents", "tokens")}
    assert {path.name for path in resumed.folder.iterdir()} == {"corpus.json", "tokenizer", *parts}


def test_text_that_spells_a_special_token_has_none(words, tmp_path):
    dogs = [f"dog {a} {b}" for a, b in itertools.product(WORDS, WORDS)]
    request = request_for(tmp_path / "a.txt", ["the cat [MASK] sees", "[PAD] [CLS]", *dogs], words=words)
    corpus = prepared_corpus(request, tmp_path)
    rows = corpus._rows("training").tolist() + corpus._rows("validation").tolist()
    assert [*corpus.tokenizer("the cat sees", add_special_tokens=False).input_ids, 0, 0, 0, 0] in rows
    assert not {1, 2} & {token for row in rows for token in row}


def test_what_a_text_spells_is_read_as_its_letters(tmp_path):
    lines = [f"see [MASK] {word} {number}" for number in range(9) for word in WORDS]
    corpus = prepared_corpus(request_for(tmp_path / "a.txt", lines), tmp_path)
    first = corpus.tokenizer(lines[0].replace("[MASK]", "[ mask ]"), add_special_tokens=False).input_ids
    rows = corpus._rows("training").tolist() + corpus._rows("validation").tolist()
    assert not {0, 1, 2, 3} & set(first)
    assert [*first, 0, 0, 0, 0][:7] in rows


def test_unknown_words_are_counted_of_every_shard(monkeypatch, tmp_path):
    monkeypatch.setattr(tokenisation, "SHARD_CHARACTERS", 100)
    lines = [f"the cat {chr(0x4E00 + number)}" for number in range(60)]
    corpus = prepared_corpus(request_for(tmp_path / "a.txt", lines), tmp_path)
    for part in ("training", "validation"):
        there = int((corpus._rows(part) == corpus.tokenizer.unk_token_id).sum())
        assert getattr(corpus.counts, part).unknown_words == there > 0


def test_a_tokenizer_without_separator_cannot_pack_across_documents(lines, words, tmp_path):
    request = request_for(tmp_path / "a.txt", lines, words=words, across_documents=True)
    with pytest.raises(BadInput, match="no separator to put between documents"):
        prepared_corpus(request, tmp_path)


def test_text_that_a_tokenizer_has_no_words_for_is_named(words, tmp_path):
    request = request_for(tmp_path / "a.txt", ["cat", "a zebra"], words=words)
    with pytest.raises(BadInput, match=r"a.txt, line 2: the tokenizer cannot encode the text \(WordLevel"):
        prepared_corpus(request, tmp_path)


def test_a_tokenizer_that_is_not_there_is_refused(lines, tmp_path):
    (tmp_path / "empty").mkdir()
    request = request_for(tmp_path / "a.txt", lines, words=NamedTokenizer(str(tmp_path / "empty")))
    with pytest.raises(BadInput, match="no tokenizer can be read from"):
        prepared_corpus(request, tmp_path)
