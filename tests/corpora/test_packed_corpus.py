"""Packing, against cutting one document at a time."""

import numpy as np
import pytest

from isoloss.corpora.packed_corpus import pack_each, pack_end_to_end


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
