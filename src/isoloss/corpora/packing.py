"""Documents' words cut into sequences of one width."""

import numpy as np
from jaxtyping import Integer

from isoloss.objectives.tokens import PAD


def shortest_piece(width: int) -> int:
    """How many words the last piece of a document needs to be kept: an eighth of a sequence's.

    A sequence counts as one in the loss however few its words are, so that a piece of two words would weigh
    as much as 127 that are there to be read; what is dropped is counted and shown.

    >>> shortest_piece(127), shortest_piece(4)
    (15, 1)
    """
    return max(1, width // 8)


def pack_each(
    words: Integer[np.ndarray, " w"], lengths: Integer[np.ndarray, " d"], width: int
) -> tuple[Integer[np.ndarray, "n width"], Integer[np.ndarray, " n"]]:
    """Each document in sequences of its own: no sequence holds words of two.

    `words` are the tokens of d documents end to end, `lengths[i]` those of document i. A document's last
    sequence ends in PAD; one of fewer words than `shortest_piece` is dropped. Returns the sequences and
    the document, from 0, of each.

    >>> rows, documents = pack_each(np.arange(10, 17), np.array([5, 2]), width=4)
    >>> rows.tolist(), documents.tolist()
    ([[10, 11, 12, 13], [14, 0, 0, 0], [15, 16, 0, 0]], [0, 0, 1])
    """
    rest = lengths % width
    kept = lengths - np.where(rest < shortest_piece(width), rest, 0)
    pieces = -(-kept // width)
    documents = np.repeat(np.arange(len(lengths)), pieces)
    pieces_before = np.arange(len(documents)) - np.repeat(pieces.cumsum() - pieces, pieces)
    inside = np.arange(width) < (kept[documents] - pieces_before * width)[:, None]
    if (kept < lengths).any():
        places = np.arange(len(words)) - np.repeat(lengths.cumsum() - lengths, lengths)
        words = words[places < np.repeat(kept, lengths)]
    rows = np.full(inside.shape, PAD, dtype=words.dtype)
    rows[inside] = words  # sequences stand in the documents' order, and so do the words
    return rows, documents


def pack_end_to_end(
    words: Integer[np.ndarray, " w"],
    lengths: Integer[np.ndarray, " d"],
    width: int,
    separator: int,
    before: Integer[np.ndarray, " b"],
) -> tuple[Integer[np.ndarray, "n width"], Integer[np.ndarray, " n_1"], Integer[np.ndarray, " r"]]:
    """All documents in a row, `separator` after each, cut every `width` words: nothing is padded.

    `before` are the words left over from earlier documents, fewer than `width`. Returns the n sequences; the
    document, from 0, that each begins in (-1: in one before), and the words left over as the last; and these.

    >>> rows, documents, rest = pack_end_to_end(
    ...     np.arange(10, 17), np.array([5, 2]), width=4, separator=3, before=np.array([9])
    ... )
    >>> rows.tolist(), documents.tolist(), rest.tolist()
    ([[9, 10, 11, 12], [13, 14, 3, 15]], [-1, 0, 1], [16, 3])
    """
    stream = np.concatenate([before, np.insert(words, lengths.cumsum(), separator)]).astype(words.dtype)
    n = len(stream) // width
    starts = np.arange(n + 1) * width - len(before)
    ends = (lengths + 1).cumsum()
    documents = np.minimum(np.searchsorted(ends, starts, side="right"), len(ends) - 1)
    documents[starts < 0] = -1
    return stream[: n * width].reshape(n, width), documents, stream[n * width :]
