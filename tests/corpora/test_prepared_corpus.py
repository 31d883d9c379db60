"""Corpora on disk: their contents, without duplicates, and that an interruption changes nothing."""

import json
import pickle
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_corpora import WORDS, request_for, with_copies

import isoloss.corpora.tokenisation as tokenisation
from isoloss.corpora.documents import local_files
from isoloss.corpora.packed_corpus import is_held_out, read_packed_corpus, text_hash
from isoloss.corpora.prepared_corpus import prepared_corpus
from isoloss.corpora.vocabulary import NamedTokenizer, OwnVocabulary
from isoloss.errors import BadInput
from isoloss.languages.language import SentenceSource
from isoloss.models.tokenizer import word_tokenizer


@pytest.fixture(scope="module")
def lines():
    return with_copies()


@pytest.fixture(scope="module")
def corpus(lines, tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    return prepared_corpus(request_for(folder / "a.txt", lines), folder)


def sequences(corpus, part):
    """The tokens of every sequence of a part, without padding, and its document."""
    rows = corpus._rows(part).tolist()
    numbers = np.fromfile(corpus.folder / f"{part}.documents", np.int32)
    return [[token for token in row if token > 0] for row in rows], numbers.tolist()


def test_every_document_is_there_once_in_one_part_in_its_own_sequences(corpus, lines):
    found = {}
    for part in ("training", "validation"):
        for tokens, document in zip(*sequences(corpus, part), strict=True):
            assert found.setdefault(document, (part, []))[0] == part
            found[document][1].extend(tokens)
    # All 120, without the three duplicates; an eighth of a sequence is less than a word.
    assert sorted(found) == list(range(120))
    for document, (part, tokens) in found.items():
        assert corpus.tokenizer.decode(tokens) == lines[document]
        assert tokens == corpus.tokenizer(lines[document]).input_ids[1:]
        assert (part == "validation") == is_held_out(text_hash(lines[document]), 0.2)
    assert corpus.counts.documents == 123
    assert corpus.counts.duplicates == 3


def test_counts_are_those_of_what_is_there(corpus):
    for part in ("training", "validation"):
        held, rows = getattr(corpus.counts, part), corpus._rows(part)
        assert held.sequences == len(rows)
        assert held.words == int((rows != 0).sum())
        assert held.documents == len(set(sequences(corpus, part)[1]))
        assert held.unknown_words == 0
        assert held.dropped_words == 0


def test_an_own_vocabulary_is_of_the_training_part_alone(lines, tmp_path):
    more = [f"{'ж ' * 20}{number}" for number in range(60)]
    held_out = [line for line in more if is_held_out(text_hash(line), 0.2)]
    tokenizer = prepared_corpus(request_for(tmp_path / "a.txt", [*lines, *held_out]), tmp_path).tokenizer
    assert len(held_out) > 5
    assert tokenizer.tokenize("ж the") == ["[UNK]", "the"]


def test_draws_are_training_sequences_and_do_not_depend_on_how_they_are_asked_for(corpus):
    assert isinstance(corpus, SentenceSource)
    generator = torch.Generator().manual_seed(0)
    split = [corpus.sample(n, generator) for n in (5, 600)]
    whole = corpus.sample(605, torch.Generator().manual_seed(0))
    assert torch.equal(torch.cat([part.ids for part in split]), whole.ids)
    assert torch.equal(whole.lengths, (whole.ids >= 0).sum(1))
    tokens = torch.where(whole.ids < 0, 0, whole.ids + 3)
    there = {tuple(row) for row in corpus._rows("training").tolist()}
    drawn = {tuple(row) for row in tokens.tolist()}
    assert drawn <= there
    assert len(drawn) > len(there) / 2
    assert len(corpus.vocabulary) + 3 == len(corpus.tokenizer)
    assert corpus.vocabulary[5] == corpus.tokenizer.convert_ids_to_tokens(8)


def test_the_validation_part_knows_its_documents(corpus, lines):
    sentences, documents = corpus.validation_sequences(), corpus.validation_documents()
    assert len(sentences) == len(documents) == corpus.counts.validation.sequences
    assert documents.tolist() == sorted(documents.tolist())
    first = corpus.tokenizer.decode(sentences.ids[0, : sentences.lengths[0]] + 3)
    assert lines[int(documents[0])].startswith(first)


def test_a_corpus_is_pickled_as_a_name(corpus):
    assert len(corpus.vocabulary) > 50  # its tokenizer has been read
    pickled = pickle.dumps(corpus)
    assert len(pickled) < 1000
    assert pickle.loads(pickled) == corpus
    assert pickle.loads(pickle.dumps(request_for(corpus.folder / "b.txt", ["a"]))).digest


def test_a_prepared_corpus_is_not_prepared_again(corpus, lines, monkeypatch):
    cache = corpus.folder.parent.parent
    monkeypatch.setattr("isoloss.corpora.prepared_corpus.tokenise", None)
    assert prepared_corpus(request_for(cache / "a.txt", lines), cache) == corpus


def test_the_name_follows_content_tokenizer_and_settings(corpus, lines, tmp_path):
    request = request_for(tmp_path / "a.txt", lines)
    word_tokenizer(WORDS, 8).save_pretrained(tmp_path / "words")
    others = [
        request_for(tmp_path / "b.txt", lines[1:]),
        request_for(tmp_path / "c.txt", lines, length=16),
        request_for(tmp_path / "d.txt", lines, validation_share=0.3),
        request_for(tmp_path / "e.txt", lines, across_documents=True),
        request_for(tmp_path / "f.txt", lines, words=OwnVocabulary(200)),
        request_for(tmp_path / "g.txt", lines, words=NamedTokenizer("bert")),
        request_for(tmp_path / "h.txt", lines, words=NamedTokenizer(str(tmp_path / "words"))),
    ]
    assert request_for(tmp_path / "i.txt", lines).digest == request.digest
    assert len({each.digest for each in [request, *others]}) == 8
    before = others[-1].words.digest
    word_tokenizer(WORDS[:-1], 8).save_pretrained(tmp_path / "words")
    assert others[-1].words.digest != before


def test_across_documents_nothing_is_padded_and_separators_stand_between(lines, monkeypatch, tmp_path):
    monkeypatch.setattr(tokenisation, "SHARD_CHARACTERS", 300)
    corpus = prepared_corpus(request_for(tmp_path / "a.txt", lines, across_documents=True), tmp_path)
    for part, held in (("training", False), ("validation", True)):
        stream = corpus._rows(part).ravel().tolist()
        chosen = [n for n, line in enumerate(lines[:120]) if is_held_out(text_hash(line), 0.2) == held]
        wanted, owners = [], []
        for number in chosen:
            words = corpus.tokenizer(lines[number], add_special_tokens=False).input_ids
            wanted += [*words, corpus.tokenizer.sep_token_id]
            owners += [number] * (len(words) + 1)
        assert stream == wanted[: len(stream)]
        assert len(wanted) - len(stream) == getattr(corpus.counts, part).dropped_words < 7
        assert sequences(corpus, part)[1] == owners[: len(stream) : 7]


def test_who_asks_while_another_prepares_waits_for_it(lines, tmp_path):
    request = request_for(tmp_path / "a.txt", lines)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(prepared_corpus(request, tmp_path))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert found[0] == found[1] == found[2]
    assert list((tmp_path / "corpora").iterdir()) == [found[0].folder]  # no lock stays


@pytest.mark.parametrize(
    ("written", "settings", "sentence"),
    [
        (
            ["one line"],
            {},
            r"little text in .*a\.txt: of 1 document, 0 went into the .* part, which needs at least [12];",
        ),
        (["a"] * 9, {}, r"of 9 documents \(8 of them duplicates\), 0 went into"),
        (["  ", ""], {}, r"there are no documents in .*a\.txt; give texts"),
        # Two of these are for validation, but one has fewer words than an eighth of a sequence.
        (
            ["cat " * n for n in range(1, 40) if n != 17],
            {"length": 65, "validation_share": 0.05},
            "1 went into the validation part, which needs at least 2",
        ),
    ],
)
def test_too_little_text_is_refused_and_leaves_nothing(tmp_path, written, settings, sentence):
    with pytest.raises(BadInput, match=sentence):
        prepared_corpus(request_for(tmp_path / "a.txt", written, **settings), tmp_path)
    assert not [path for path in (tmp_path / "corpora").iterdir() if path.is_dir()]


def test_a_file_that_is_refused_in_the_middle_leaves_nothing(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "the cat"}\n{"title": "no text"}\n')
    request = replace(request_for(tmp_path / "a.txt", ["a"]), source=local_files([path]))
    with pytest.raises(BadInput, match="line 2: there is no text under 'text'"):
        prepared_corpus(request, tmp_path)
    assert not [path for path in (tmp_path / "corpora").iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"length": 1}, "a length of at least 2, not 1"),
        ({"validation_share": 1.0}, "above 0 and below 1, not 1.0"),
        ({"validation_share": 0.0}, "above 0 and below 1, not 0.0"),
    ],
)
def test_settings_that_make_no_corpus_are_refused(tmp_path, settings, sentence):
    with pytest.raises(BadInput, match=sentence):
        request_for(tmp_path / "a.txt", ["a"], **settings)
    with pytest.raises(BadInput, match="at least 100 pieces, not 9"):
        OwnVocabulary(9)


def test_a_damaged_corpus_is_named(lines, tmp_path):
    corpus = prepared_corpus(request_for(tmp_path / "a.txt", lines), tmp_path)
    path = corpus.folder / "validation.tokens"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(BadInput, match=r"is damaged \(validation.tokens is not what was written\); delete"):
        read_packed_corpus(corpus.folder)
    told = []
    request = request_for(tmp_path / "a.txt", lines)
    assert prepared_corpus(request, tmp_path, lambda *report: told.append(report[-1])) == corpus
    assert f"{corpus.folder} is damaged: it is prepared again from its documents" in told
    (corpus.folder / "corpus.json").write_text(json.dumps({"digest": "a"}))
    with pytest.raises(BadInput, match="is damaged"):
        read_packed_corpus(corpus.folder)


def test_a_kill_after_the_last_rename_leaves_nothing_over(lines, tmp_path):
    request = request_for(tmp_path / "a.txt", lines)
    made = prepared_corpus(request, tmp_path)
    journal = made.folder / tokenisation.JOURNAL_FILE
    assert not journal.exists()
    journal.write_text("{}")  # as if killed before it was removed
    assert prepared_corpus(request, tmp_path).folder == made.folder
    assert not journal.exists()
