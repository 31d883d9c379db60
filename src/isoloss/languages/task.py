"""Downstream tasks: labelled sentences, split so that no sentence is in two; and a generator's first word."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences, refuse_unknown_words

if TYPE_CHECKING:  # which has these tasks
    from isoloss.languages.causal_lm import CausalLM

DRAWS_PER_EXAMPLE = 100
"""Draws, per example wanted, after which a split that is not full is given up."""


@dataclass(frozen=True)
class LabelledSentences:
    """Sentences, their labels, and the exact posterior that the labels come from.

    `labels[i]` is the argmax of `posterior[i]`, a distribution over the task's classes (docs/languages.md).
    """

    sentences: Sentences
    labels: Int[Tensor, " n"]
    posterior: Float[Tensor, "n k"]

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, rows: Tensor | slice) -> "LabelledSentences":
        return LabelledSentences(self.sentences[rows], self.labels[rows], self.posterior[rows])


@runtime_checkable
class Task(Protocol):
    """A classification of sentences."""

    @property
    def name(self) -> str:
        """A short name, for example 'prefix-16'."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the k labels."""
        ...

    def sample(self, n: int, generator: torch.Generator) -> LabelledSentences:
        """Draw n independent sentences that the task is defined on, with their labels."""
        ...


@dataclass(frozen=True)
class TaskSplits:
    """Train, validation and test examples; no sentence is in two of them."""

    train: LabelledSentences
    validation: LabelledSentences
    test: LabelledSentences


def most_probable(posterior: Float[Tensor, "n k"]) -> Int[Tensor, " n"]:
    """The argmax of each distribution; ties, up to rounding, go to the first.

    >>> most_probable(torch.tensor([[0.2, 0.4, 0.4 + 1e-15]], dtype=torch.float64)).tolist()
    [1]
    """
    near = posterior >= posterior.amax(1, keepdim=True) * (1 - 1e-12)
    return near.int().argmax(1)


def task_splits(task: Task, train: int, validation: int, test: int, seed: int) -> TaskSplits:
    """Examples drawn until every split has its size; each distinct sentence belongs to one split.

    The split is determined by a hash of its words and the seed, in proportion to the sizes, so that sentences
    keep their natural frequencies within a split. Raises BadInput if a split cannot be filled because the
    language has too few sentences.
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
                f"and {test} examples; use a larger language or, in Python, smaller splits"
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
    """SplitMix64's finaliser on int64, whose shifts extend the sign; this does not harm a hash."""
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


OPENINGS = (2, 4)
SENTENCES_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class OpeningTask:
    """y = argmax_o Pr(x_1 = o | x_2..x_T, x_1 in `openings`); ties go to the first, the more frequent one.

    The generator's latent choice is its first word, one of `openings` (word ids), drawn from its distribution
    renormalised over them; the sentences to label are the T - 1 words that follow. By Bayes' rule the
    posterior is Pr(o) Pr(x_2..x_T | o), normalised, which takes k forward passes per sentence. As for a
    hidden state, the mean of its largest probability is the best possible accuracy for the word that was
    drawn.
    """

    language: "CausalLM"
    openings: tuple[int, ...]

    @property
    def name(self) -> str:
        """`opening-2` for a choice between two words."""
        return f"opening-{len(self.openings)}"

    @property
    def classes(self) -> tuple[str, ...]:
        """The words that can be the first."""
        return tuple(self.language.vocabulary[word] for word in self.openings)

    def sample(self, n: int, generator: torch.Generator) -> LabelledSentences:
        """Draw n sentences, and label what follows their first words with the exact posterior."""
        whole = self.language.sample_opening_with(torch.tensor(self.openings), n, generator)
        return self.label(Sentences(whole.ids[:, 1:], whole.lengths - 1))

    def label(self, sentences: Sentences) -> LabelledSentences:
        """The posterior of each sentence's unseen first word, and its argmax.

        Raises BadInput for an unknown word and for a sentence that does not have T - 1 words.
        """
        self._check(sentences)
        posterior = torch.empty(len(sentences), len(self.openings), dtype=torch.float64)
        for start in range(0, len(sentences), SENTENCES_AT_ONCE):
            rows = slice(start, start + SENTENCES_AT_ONCE)
            posterior[rows] = self._posterior(sentences.ids[rows, : self.language.length - 1])
        return LabelledSentences(sentences, most_probable(posterior), posterior)

    def _posterior(self, ids: Int[Tensor, "n T_1"]) -> Float[Tensor, "n k"]:
        n, k, length = len(ids), len(self.openings), self.language.length
        tried = torch.empty(n, k, length, dtype=torch.int64)
        tried[:, :, 0] = torch.tensor(self.openings)
        tried[:, :, 1:] = ids[:, None]
        whole = Sentences(tried.view(n * k, length), torch.full((n * k,), length))
        return self.language.log_probability(whole).view(n, k).softmax(1)

    def _check(self, sentences: Sentences) -> None:
        refuse_unknown_words(sentences, len(self.language.vocabulary))
        expected = self.language.length - 1
        other = (sentences.lengths != expected).nonzero()
        if len(other):
            row = int(other[0])
            raise BadInput(
                f"sentence {row + 1} has {int(sentences.lengths[row])} words, those of {self.name} have "
                f"{expected}; give whole sentences without their first word"
            )


def opening_tasks(language: "CausalLM") -> Sequence[OpeningTask]:
    """The tasks of distinguishing the 2 and the 4 most probable first words, if there are that many words."""
    if language.length < 2:
        return []
    ranked = language.first_word_log_probabilities().sort(descending=True, stable=True).indices.tolist()
    return [OpeningTask(language, tuple(ranked[:k])) for k in OPENINGS if k <= len(ranked)]
