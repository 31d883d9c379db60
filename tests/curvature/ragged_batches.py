"""Ragged sentences of two words, and batches of them with one mask or several masks per sentence."""

import torch

from isoloss.languages.sentences import Sentences
from isoloss.objectives.batch import Batch
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.tokens import MASK, PAD, tokens_of_words

WORDS, LENGTH = 2, 5


def sentences():
    generator = torch.Generator().manual_seed(2)
    lengths = [5, 3, 5, 1, 3, 4]
    return Sentences.from_lists(
        [torch.randint(0, WORDS, (n,), generator=generator).tolist() for n in lengths]
    )


def one_mask():
    return MaskedObjective().mask_one(sentences(), torch.Generator().manual_seed(3))


def several_masks():
    """Sentence i has min(i + 1, its length, 3) masks, at its first positions."""
    drawn = sentences()
    places = [(i, t) for i in range(len(drawn)) for t in range(min(i + 1, int(drawn.lengths[i]), 3))]
    rows, positions = torch.tensor(places).T
    ids = tokens_of_words(drawn.ids)
    targets = ids[rows, positions + 1]
    attention_mask = ids != PAD
    ids[rows, positions + 1] = MASK
    return Batch(ids, attention_mask, rows, positions + 1, targets)


def equally_long(number):
    """So many sentences of three words, with a mask in each."""
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(0, WORDS, (number, 3), generator=generator)
    return MaskedObjective().draw(Sentences(ids, torch.full((number,), 3)), generator)


def repeated(batch, times):
    """The batch so many times in one: each of its sentences then has that many draws of signs."""
    return Batch(
        batch.input_ids.repeat(times, 1),
        batch.attention_mask.repeat(times, 1),
        (batch.rows + len(batch) * torch.arange(times)[:, None]).flatten(),
        batch.positions.repeat(times),
        batch.targets.repeat(times),
    )
