"""The words of a typed sentence, as numbers: what can be said of them without torch."""

from collections.abc import Sequence

from isoloss.errors import BadInput, did_you_mean


def word_numbers(text: str, vocabulary: Sequence[str]) -> list[int]:
    """The ids of words that are separated by white space.

    Raises BadInput for an empty sentence and for a word outside the vocabulary, with its position
    (from 1) and the nearest word that there is.

    >>> word_numbers("b a", ["a", "b"])
    [1, 0]
    >>> word_numbers("the catt", ["the", "cat"])
    Traceback (most recent call last):
    isoloss.errors.BadInput: word 2, 'catt', is not in the vocabulary; did you mean 'cat'?
    """
    words = text.split()
    if not words:
        raise BadInput("the sentence is empty; give at least one word, words separated by blanks")
    numbers = {word: number for number, word in enumerate(vocabulary)}
    for place, word in enumerate(words, start=1):
        if word not in numbers:
            advice = did_you_mean(word, vocabulary) or f"; known words are {_some(vocabulary)}"
            raise BadInput(f"word {place}, {word!r}, is not in the vocabulary{advice}")
    return [numbers[word] for word in words]


def _some(vocabulary: Sequence[str]) -> str:
    shown = ", ".join(repr(word) for word in vocabulary[:5])
    return f"{shown} and {len(vocabulary) - 5} more" if len(vocabulary) > 5 else shown
