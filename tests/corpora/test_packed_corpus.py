"""Packing, against cutting one document at a time."""

import numpy as np
import pytest
from small_corpora import request_for, texts

from isoloss.corpora.labelled_texts import COMPARED, LabelledTexts, stand_in_validation, standing_in
from isoloss.corpora.packed_corpus import pack_each, pack_end_to_end, text_hash, token_type
from isoloss.corpora.prepared_corpus import prepared_corpus
from isoloss.models.tokenizer import word_tokenizer


@pytest.mark.parametrize("width", [1, 3, 8, 16])
def test_packing_agrees_with_cutting_one_document_at_a_time(width):
    draw = np.random.default_rng(0)
    lengths = draw.integers(0, 30, size=40)
    words = draw.integers(3, 90, size=lengths.sum())
    each = np.split(words, lengths.cumsum()[:-1])
    pieces = [(list(d[i : i + width]), n) for n, d in enumerate(each) for i in range(0, len(d), width)]
    kept = [(piece, n) for piece, n in pieces if len(piece) >= max(1, width // 8)]
    rows, owners = pack_each(words, lengths, width)
    assert [row[row > 0].tolist() for row in rows] == [piece for piece, _ in kept]
    assert owners.tolist() == [n for _, n in kept]

    stream = [7] + [word for document in each for word in (*document.tolist(), 5)]
    owned = [-1] + [n for n, document in enumerate(each) for _ in range(len(document) + 1)]
    if width > 1:
        rows, owners, rest = pack_end_to_end(words, lengths, width, 5, np.array([7]))
        assert [*rows.ravel(), *rest] == stream
        assert len(rest) < width
        assert owners.tolist()[: len(rows)] == owned[::width][: len(rows)]
        assert not len(rest) or owners[-1] == owned[len(rows) * width]


@pytest.mark.thorough
def test_a_token_has_two_bytes_as_long_as_its_number_fits_in():
    tokenizer = word_tokenizer([str(number) for number in range(2**16 - 3)], 4)
    assert tokenizer("65532").input_ids == [1, 2**16 - 1]
    assert token_type(tokenizer) == np.uint16
    tokenizer.add_tokens("more")
    assert token_type(tokenizer) == np.uint32


def test_standing_in_a_row_is_found_wherever_it_is():
    """Against a check of every position, for texts shorter and longer than what is compared at once."""
    generator = np.random.default_rng(0)
    sequences = generator.integers(0, 3, (20, 24))
    sequences[3, 10:] = -1
    drawn = [
        generator.integers(0, 3, length).tolist() for length in (1, 2, 5, 7, COMPARED, 12) for _ in range(9)
    ]
    taken = [sequences[row, row : row + length].tolist() for row in range(3) for length in (1, 6, 8, 20)]
    longer = [sequences[0].tolist(), [*sequences[0].tolist(), 0], []]
    every = drawn + taken + longer

    def stands(text: list[int]) -> bool:
        places = range(sequences.shape[1] - len(text) + 1)
        return any(row[place : place + len(text)].tolist() == text for row in sequences for place in places)

    expected = [bool(text) and stands(text) for text in every]
    assert standing_in(sequences, every) == expected
    assert any(expected)
    assert not all(expected)


def test_a_validation_text_is_found_and_a_training_text_is_not(tmp_path):
    lines = texts()
    corpus = prepared_corpus(request_for(tmp_path / "a.txt", lines), tmp_path)
    validating = set(corpus.validation_documents().tolist())
    short = [place for place, line in enumerate(lines) if len(corpus.tokenizer.tokenize(line)) <= 8]
    chosen = [place for place in short if place in validating][:3] + [
        p for p in short if p not in validating
    ][:3]
    given = tuple(lines[place].upper() if place % 2 else lines[place] for place in chosen)
    labels = (0,) * len(given)
    found = stand_in_validation(corpus, LabelledTexts(given, None, labels))
    assert found == [place in validating for place in chosen]
    second = LabelledTexts(("nowhere at all",) * len(given), given, labels)
    assert stand_in_validation(corpus, second) == found


def test_capitals_of_all_scripts_make_no_other_text():
    assert text_hash("DIE STRASSE") == text_hash("die straße") != text_hash("die strase")


@pytest.mark.parametrize(
    "written", ["cafe\u0301 noir", "\ufeffcaf\u00e9 noir", "caf\u00e9 no\u00adir", "CAFE\u0301\nnoir\u200b"]
)
def test_a_text_is_the_same_however_unicode_writes_it(written):
    assert text_hash(written) == text_hash("caf\u00e9 noir") != text_hash("cafe noir")
