"""No text in both the pre-training validation part and a task's test."""

import numpy as np
from small_corpora import request_for, texts

from isoloss.corpora.labelled_texts import LabelledTexts
from isoloss.corpora.prepared_corpus import prepared_corpus
from isoloss.corpora.shared_texts import COMPARED, stand_in_validation, standing_in


def test_standing_in_a_row_is_found_wherever_it_is():
    """Against a look at every place, of texts shorter and longer than what is compared at once."""
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
