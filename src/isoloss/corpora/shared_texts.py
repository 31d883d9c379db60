"""Which of a task's texts stand in the validation part of the corpus that models are trained on."""

from collections import defaultdict

import numpy as np
from jaxtyping import Integer

from isoloss.corpora.labelled_texts import LabelledTexts
from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.objectives.tokens import FIRST_WORD

COMPARED = 8
"""How many tokens are looked for at once; texts that agree in them are then compared whole."""

_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def stand_in_validation(corpus: PackedCorpus, examples: LabelledTexts) -> list[bool]:
    """Whether an example's text, or either text of a pair, stands within one validation sequence.

    Texts are compared as the corpus's tokenizer writes them: capitals and white space tell none apart where
    the tokenizer's do not. A text that two sequences share is not found. 16 bytes a token of the part.
    """
    sequences = corpus.validation_sequences().ids.numpy()
    first = standing_in(sequences, _words(corpus, examples.texts))
    if examples.seconds is None:
        return first
    second = standing_in(sequences, _words(corpus, examples.seconds))
    return [either or other for either, other in zip(first, second, strict=True)]


def standing_in(sequences: Integer[np.ndarray, "n T"], texts: list[list[int]]) -> list[bool]:
    """Whether the numbers of each text stand in a row in one of the sequences; an empty text does not.

    >>> standing_in(np.array([[5, 6, 7, 8], [9, 5, 7, -1]]), [[6, 7], [5, 7, 9], [8, 9], []])
    [True, False, False, False]
    """
    by_length: dict[int, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        if 0 < len(text) <= sequences.shape[1]:
            by_length[min(len(text), COMPARED)].append(place)
    found = [False] * len(texts)
    for length, places in by_length.items():
        windows = _hashes(sequences, length)
        wanted = _hashes(np.array([texts[place][:length] for place in places]), length)[:, 0]
        rows, starts = np.isin(windows, wanted).nonzero()
        begun = defaultdict(list)
        for row, start in zip(rows.tolist(), starts.tolist(), strict=True):
            begun[int(windows[row, start])].append((row, start))
        for place, name in zip(places, wanted.tolist(), strict=True):
            text = texts[place]
            found[place] = any(
                sequences[row, start : start + len(text)].tolist() == text for row, start in begun[name]
            )
    return found


def _words(corpus: PackedCorpus, texts: tuple[str, ...]) -> list[list[int]]:
    """Each text's words by number, as `PackedCorpus` numbers them."""
    encoded = corpus.tokenizer.backend_tokenizer.encode_batch(list(texts), add_special_tokens=False)
    return [[token - FIRST_WORD for token in text.ids] for text in encoded]


def _hashes(rows: Integer[np.ndarray, "n T"], length: int) -> Integer[np.ndarray, "n starts"]:
    """One number for each `length` in a row: equal ones for equal, others nearly always for others."""
    numbers = rows.astype(np.uint64)
    windows = np.zeros((len(rows), rows.shape[1] - length + 1), np.uint64)
    for place in range(length):
        windows = (windows + numbers[:, place : place + windows.shape[1]] + np.uint64(1)) * _FACTOR
        windows ^= windows >> np.uint64(29)
    return windows
