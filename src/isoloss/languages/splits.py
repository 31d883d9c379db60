"""Train, validation and test examples of a task, of which no two splits share a sentence."""

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences
from isoloss.languages.task import LabelledSentences, Task, TaskSplits

DRAWS_PER_EXAMPLE = 100
"""Draws, per example wanted, after which a split that is not full is given up."""


def task_splits(task: Task, train: int, validation: int, test: int, seed: int) -> TaskSplits:
    """Examples drawn until every split has its size; each distinct sentence belongs to one split.

    Which one is decided by a hash of its words and the seed, in proportion to the sizes, so that within
    a split sentences keep their natural frequencies. Raises BadInput when a split cannot be filled,
    because the language has too few sentences.
    """
    sizes = (train, validation, test)
    if min(sizes) < 0 or sum(sizes) < 1:
        raise BadInput(
            f"splits of {train}, {validation} and {test} examples make no sense; give sizes above 0"
        )
    generator = torch.Generator().manual_seed(seed)
    parts: list[list[LabelledSentences]] = [[], [], []]
    missing = list(sizes)
    bounds = torch.tensor(sizes, dtype=torch.float64).cumsum(0) / sum(sizes)
    drawn = 0
    while any(missing):
        if drawn > DRAWS_PER_EXAMPLE * sum(sizes) + 1000:
            raise BadInput(
                f"{task.name} has too few different sentences for disjoint splits of {train}, {validation} "
                f"and {test} examples; use a larger language or smaller splits"
            )
        batch = task.sample(max(64, int(1.1 * sum(missing))), generator)
        drawn += len(batch)
        split = torch.bucketize(_places(batch.sentences, seed), bounds, right=True)
        for number in range(3):
            rows = (split == number).nonzero()[: missing[number], 0]
            parts[number].append(batch[rows])
            missing[number] -= len(rows)
    return TaskSplits(*(_joined(part) for part in parts))


def _places(sentences: Sentences, seed: int) -> Float[Tensor, " n"]:
    """A number in [0, 1) for each sentence, a function of its words and the seed alone."""
    state = torch.full_like(sentences.lengths, seed) ^ sentences.lengths
    for column, real in zip(sentences.ids.T, sentences.real.T, strict=True):
        state = torch.where(real, _scrambled(state ^ column), state)
    return (_scrambled(state) >> 11 & (1 << 52) - 1).double() / 2.0**52


def _scrambled(numbers: Tensor) -> Tensor:
    """SplitMix64's finaliser on int64, whose shifts carry the sign in; that does no harm to a hash."""
    numbers = numbers + 0x1E3779B97F4A7C15
    numbers = (numbers ^ (numbers >> 30)) * -0x40A7B892E31B1A47
    numbers = (numbers ^ (numbers >> 27)) * -0x6B2FB644ECCEEE15
    return numbers ^ (numbers >> 31)


def _joined(parts: list[LabelledSentences]) -> LabelledSentences:
    width = max(part.sentences.ids.shape[1] for part in parts)
    ids = [
        torch.nn.functional.pad(part.sentences.ids, (0, width - part.sentences.ids.shape[1]), value=-1)
        for part in parts
    ]
    sentences = Sentences(torch.cat(ids), torch.cat([part.sentences.lengths for part in parts]))
    labels = torch.cat([part.labels for part in parts])
    return LabelledSentences(sentences, labels, torch.cat([part.posterior for part in parts]))
