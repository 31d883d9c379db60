"""Validation of sentences and probabilities, with one-sentence errors that name the place."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences

TOLERANCE = 1e-6
"""How far from 1 a row's sum may be."""
ROUNDING = 1e-12
"""Rows closer to 1 than this are left as they are, so that writing and reading changes nothing."""


def refuse_unknown_words(sentences: Sentences, words: int) -> None:
    """Raise BadInput for an empty sentence, and for an id that is not one of a language's `words` words.

    >>> refuse_unknown_words(Sentences.from_lists([[0, 7]]), 2)
    Traceback (most recent call last):
    isoloss.errors.BadInput: sentence 1, position 2: there is no word number 7; words are numbered from 0 to 1
    """
    ids, lengths = sentences.ids, sentences.lengths
    if len(lengths) and int(lengths.min()) < 1:
        raise BadInput(f"sentence {int(lengths.argmin()) + 1} is empty; every sentence has at least one word")
    unknown = sentences.real & ((ids < 0) | (ids >= words))
    if unknown.any():
        row, place = unknown.nonzero()[0].tolist()
        raise BadInput(
            f"sentence {row + 1}, position {place + 1}: there is no word number {int(ids[row, place])}; "
            f"words are numbered from 0 to {words - 1}"
        )


def refuse_other_lengths(sentences: Sentences, length: int) -> None:
    """Raise BadInput for a sentence that does not have exactly `length` words.

    >>> refuse_other_lengths(Sentences.from_lists([[0, 0]]), 3)
    Traceback (most recent call last):
    isoloss.errors.BadInput: sentence 1 has 2 words, the language's have 3; give whole sentences
    """
    other = (sentences.lengths != length).nonzero()
    if len(other):
        row = int(other[0])
        raise BadInput(
            f"sentence {row + 1} has {int(sentences.lengths[row])} words, the language's have {length}; "
            "give whole sentences"
        )


def refuse_undefined(distribution: Float[Tensor, "r T c"], rows: Int[Tensor, " r"], sentence: str) -> None:
    """Raise BadInput if a distribution is NaN, i.e. conditions on an impossible event.

    `rows` are the sentences' indices; `sentence` says what is wrong, with {} for the position.
    """
    undefined = distribution[:, :, 0].isnan()
    if undefined.any():
        row, place = undefined.nonzero()[0].tolist()
        raise BadInput(f"sentence {int(rows[row]) + 1}: {sentence.format(place + 1)}; check its words")


def checked_distributions(rows: Float[Tensor, "r k"], place: str) -> Float[Tensor, "r k"]:
    """The rows as float64 distributions; raises BadInput for one that is none, `place` saying whose rows they
    are.

    >>> checked_distributions(torch.tensor([[0.5, 0.4999995]], dtype=torch.float64), "emission").sum().item()
    1.0
    >>> checked_distributions(torch.tensor([[0.5, 0.5], [0.5, 0.25]]), "emission")
    Traceback (most recent call last):
    isoloss.errors.BadInput: emission, row 2 sums to 0.75; make its probabilities sum to 1
    """
    distributions = rows.double().contiguous()
    wrong = ~((distributions >= 0) & (distributions <= 1 + TOLERANCE))
    if wrong.any():
        row, column = wrong.nonzero()[0].tolist()
        raise BadInput(
            f"{place}, row {row + 1} has {distributions[row, column].item():g} at place {column + 1}, which "
            "is no probability; give numbers from 0 to 1"
        )
    totals = distributions.sum(1, keepdim=True)
    off = (totals - 1).abs()
    if (off > TOLERANCE).any():
        row = int((off > TOLERANCE).nonzero()[0, 0])
        raise BadInput(
            f"{place}, row {row + 1} sums to {totals[row].item():.8g}; make its probabilities sum to 1"
        )
    return torch.where(off > ROUNDING, distributions / totals, distributions)
