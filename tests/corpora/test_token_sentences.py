import json
from dataclasses import replace

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from isoloss.corpora.answered_texts import (
    AnsweredCorpus,
    texts_with_classes,
    texts_with_labels,
    words_with_classes,
)
from isoloss.corpora.token_sentences import (
    CHARACTERS_A_TOKEN,
    TextCorpus,
    read_text_corpus,
    read_token_corpus,
    texts_of_table,
)
from isoloss.errors import BadInput
from isoloss.models.tokenizer import word_tokenizer

WORDS = ["the", "cat", "sees", "a", "dog"]
TOKENIZER = word_tokenizer(WORDS, 7)


def test_lines_are_sentences_and_special_tokens_cannot_be_masked(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat\n\n  \nthe cat sees a dog\n")
    corpus = replace(read_text_corpus(path), tokenizer=TOKENIZER, longest=4)
    assert len(corpus) == 2
    second, first = corpus.sentences([1, 0])
    assert (first.ids, first.maskable, first.line, first.cut) == ([1, 3, 4], [1, 2], 1, False)
    assert (first.of_text, second.of_text) == (2, 3)
    assert (second.ids, second.maskable, second.line, second.cut) == ([1, 3, 4, 5], [1, 2, 3], 4, True)
    assert not replace(read_text_corpus(path), tokenizer=TOKENIZER).sentences([1])[0].cut


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("a.txt", b"a b\r\nc\rd\n", [1, 2, 3]),
        ("a.jsonl", b'"a b"\n""\n"c"\n"d"', [1, 3, 4]),
        ("a.json", b'["a b", "", "c", "d"]', [1, 3, 4]),
    ],
)
def test_lines_end_as_on_any_platform_and_are_numbered(tmp_path, name, content, lines):
    (tmp_path / name).write_bytes(content)
    corpus = read_text_corpus(tmp_path / name)
    assert (corpus.texts, corpus.lines) == (["a b", "c", "d"], lines)


@pytest.mark.parametrize(("ends", "unknown"), [("<e>", 0), ("<u>", 1)])
def test_the_end_of_a_text_is_no_unknown_word(ends, unknown):
    """GPT-2 has one token for the end and for unknown words, of which there are none."""
    tokenizer = Tokenizer(models.WordLevel({"the": 0, "<e>": 1, "<u>": 2}, unk_token="<u>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A <e>", special_tokens=[("<e>", 1)])
    named = {"eos_token": "<e>", "unk_token": ends}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named)
    (sentence,) = TextCorpus(["the zebra"], [1], fast).sentences([0])
    assert sentence.ids == [0, 2, 1]
    assert sentence.unknown == unknown


def test_of_a_very_long_text_only_the_beginning_is_encoded():
    read = []

    def tokenizer(texts, **settings):
        read.extend(map(len, [texts] if isinstance(texts, str) else texts))
        return TOKENIZER(texts, **settings)

    for each in ("all_special_ids", "unk_token_id", "bos_token_id", "eos_token_id"):
        setattr(tokenizer, each, getattr(TOKENIZER, each))
    whole = TextCorpus(["dog a " * 10_000], [1], TOKENIZER, longest=6).sentences([0])
    assert TextCorpus(["dog a " * 10_000], [1], tokenizer, longest=6).sentences([0]) == whole
    assert max(read) <= 6 * CHARACTERS_A_TOKEN


def test_words_that_the_tokenizer_does_not_know_are_refused(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat\n\nthe zebra\n")
    corpus = replace(read_text_corpus(path), tokenizer=TOKENIZER, longest=4)
    with pytest.raises(BadInput, match=r"line 3: the model's tokenizer cannot encode the text \(WordLevel"):
        corpus.sentences([0, 1])


def test_texts_that_only_together_cannot_be_encoded_are_said_to_be_such():
    def tokenizer(texts, **settings):
        if not isinstance(texts, str):
            raise RuntimeError("There is no memory.")

    corpus = TextCorpus(["the cat", "a dog"], [1, 2], tokenizer)
    with pytest.raises(BadInput, match=r"cannot encode the texts together \(There is no memory\); write"):
        corpus.sentences([0, 1])


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("a.json", '[{"text": "a b"}, {"text": NaN}, {"text": null}, {"text": "c"}]', ["a b", "c"]),
        ("a.csv", "text\nThe cat sat on the mat.\n", ["The cat sat on the mat."]),
        ("a.csv", "text\r\na b\r\nc\r\n", ["a b", "c"]),
        ("a.tsv", "text\r\na b\r\nc\r\n", ["a b", "c"]),
    ],
)
def test_texts_are_the_filled_cells_of_a_table(tmp_path, name, content, texts):
    path = tmp_path / name
    path.write_bytes(content.encode())
    assert read_text_corpus(path).texts == texts


MIXED = "line 2: it mixes strings and objects; give only one of them"
NOT_EMPTY = "in which carriage returns are where rows may have ended"
OTHERWISE_PARTED = "parts its columns by '.+'; save it with commas as .csv"


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.txt", b"\n \n", "a.txt is empty"),
        ("a.txt", b"\x1f\x8b\x08" + bytes(8), r"a.txt is compressed; unpack it \(gunzip\)"),
        ("a.txt", b"\x28\xb5\x2f\xfd\x04" + bytes(8), r"a.txt is compressed; unpack it \(unzstd\)"),
        ("a.json", b'{"text": ["a", "c"]}', "row 1: a list is under 'text'; write a row for each text"),
        ("a.json", b'{"text": "a"}\n"b"', MIXED),
        ("a.jsonl", b'{"text": "a"}\n"b"', MIXED),
        (
            "a.csv",
            b"The cat sat on the mat.\nThe dog sat too.\n",
            "calls the only one that holds text 'The cat sat on the mat.'; write",
        ),
        ("a.csv", b"text\ra b\rc\r", NOT_EMPTY),
        ("a.tsv", b"text\ra b\rc\r", NOT_EMPTY),
        ("a.csv", b"\ntext;label\na, b;1\n", f"a.csv {OTHERWISE_PARTED}"),
        ("a.csv", b"\ntext\tlabel\na, b\t1\n", f"a.csv {OTHERWISE_PARTED}"),
        ("a.tsv", b"\ntext,label\na, b,1\n", f"a.tsv {OTHERWISE_PARTED}"),
    ],
)
def test_what_holds_no_texts_is_refused(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=sentence):
        read_text_corpus(tmp_path / name)


def test_an_object_in_place_of_a_text_of_a_pair_is_refused(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(
        '{"sentence1": "a", "sentence2": "b", "label": 0}\n'
        '{"sentence1": "a", "sentence2": {"b": 1}, "label": 1}'
    )
    with pytest.raises(BadInput, match="row 2: an object is under 'sentence2'"):
        texts_with_classes(path, {"0": 0, "1": 1})


@pytest.mark.parametrize(
    ("read", "row"),
    [
        (texts_of_table, '{"text": "\\udc00"}'),
        (
            lambda path: texts_with_classes(path, {"0": 0}),
            '{"premise": "a", "hypothesis": "\\ud800", "label": 0}',
        ),
        (lambda path: words_with_classes(path, {"0": 0}), '{"tokens": ["a", "\\ud800"], "labels": [0, 0]}'),
    ],
)
def test_half_a_surrogate_pair_is_no_text(tmp_path, read, row):
    path = tmp_path / "a.jsonl"
    path.write_text(row)
    with pytest.raises(
        BadInput, match=r"a.jsonl, line 1: there is half a surrogate pair; write the file again"
    ):
        read(path)
    path.write_text(row.replace("\\ud800", "\\ud83d\\ude00").replace("\\udc00", "\\ud83d\\ude00"))
    read(path)


@pytest.mark.parametrize(
    ("rows", "answers"),
    [
        ([[0], [1], [0, 1], [1, 0], []], [[1, 0], [0, 1], [1, 1], [1, 1], [0, 0]]),
        ([[0, 1], [1, 0], [0, 0], [1, 1]], [[0, 1], [1, 0], [0, 0], [1, 1]]),
        ([["bad"], ["good", "bad"], [], [0, 1]], [[1, 0], [1, 1], [0, 0], [0, 1]]),
    ],
)
def test_lists_of_labels_are_numbers_of_classes_where_any_row_has_these(tmp_path, rows, answers):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"text": "a", "labels": row}) for row in rows))
    assert texts_with_labels(path, {"0": 0, "1": 1, "bad": 0, "good": 1}).answers == answers


@pytest.mark.parametrize("rows", [[[2], [0, 1, 1]], [[1, 2, 1]], [["2", 2]]])
def test_a_class_that_is_named_twice_is_refused(tmp_path, rows):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"text": "a", "labels": row}) for row in rows))
    with pytest.raises(
        BadInput, match="a class is there twice; name the classes of each text, or give all 3 a 1"
    ):
        texts_with_labels(path, {"0": 0, "1": 1, "2": 2})


def test_a_target_that_is_cut_counts_as_cut():
    tokenizer = word_tokenizer(["a", "b"], maximum_length=50)
    corpus = AnsweredCorpus(TextCorpus(["a b", "a " * 30, "b"], [1, 2, 3]), ["b " * 40, "b", "a " * 6])
    found = corpus.read_by(tokenizer, 8).sentences([0, 1, 2])
    assert [sentence.cut for sentence in found] == [True, True, False]
    assert [len(sentence.answer) for sentence in found] == [8, 2, 7]
    assert not any(sentence.cut for sentence in corpus.read_by(tokenizer, None).sentences([0, 1, 2]))


def test_token_numbers_are_taken_as_they_are(tmp_path):
    path = tmp_path / "ids.jsonl"
    path.write_text("[1, 0, 2]\n\n[5]\n")
    corpus = read_token_corpus(path, vocabulary=6, longest=3)
    (first, second) = corpus.sentences([0, 1])
    assert (first.ids, first.maskable, first.line) == ([1, 0, 2], [0, 1, 2], 1)
    assert (second.ids, second.maskable, second.line) == ([5], [0], 3)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "ids.jsonl is empty"),
        (b"\n \n", "ids.jsonl is empty"),
        (b"[1]\n[2, 6]\n", "line 2: there is no token 6; the model's 6 tokens are 0 to 5"),
        (b"[1, -1]\n", "line 1: there is no token -1"),
        (b"[1]\nnonsense\n", "line 2: this is not a list of whole numbers"),
        (b'{"ids": [1]}\n', "line 1: this is not a list"),
        (b"[1.0]\n", "line 1: this is not a list"),
        (b"[true]\n", "line 1: this is not a list"),
        (b"[[1]]\n", "line 1: this is not a list"),
        (b"[1]\n[]\n", "line 2: the sentence is empty"),
        (b"[1, 2, 3, 4]\n", "line 1: the sentence has 4 tokens, but the model reads 3 at most"),
        (b"[1]\n\xff\xfe\n", "line 2: this is not UTF-8"),
    ],
)
def test_what_is_no_token_file_is_refused(tmp_path, content, sentence):
    path = tmp_path / "ids.jsonl"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=sentence):
        read_token_corpus(path, vocabulary=6, longest=3)
