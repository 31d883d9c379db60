"""Opening tasks: which word a generated text began with, given what followed it (docs/languages.md)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.languages.refusals import refuse_unknown_words
from isoloss.languages.sentences import Sentences
from isoloss.languages.task import LabelledSentences, most_probable

OPENINGS = (2, 4)
SENTENCES_AT_ONCE = 1024


@runtime_checkable
class OpenedSentences(Protocol):
    """What the tasks need from a language: sentences of fixed `length`, sampled and scored by first word."""

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words."""
        ...

    @property
    def length(self) -> int:
        """The number of words of every sentence, T."""
        ...

    def first_word_log_probabilities(self) -> Float[Tensor, " K"]:
        """log Pr(x_1 = w) in nats, float64."""
        ...

    def sample_opening_with(
        self, openings: Int[Tensor, " k"], n: int, generator: torch.Generator
    ) -> Sentences:
        """Draw n sentences given that their first word is one of `openings`."""
        ...

    def log_probability(self, sentences: Sentences) -> Float[Tensor, " n"]:
        """log Pr(sentence) in nats, float64."""
        ...


@dataclass(frozen=True, eq=False)
class OpeningTask:
    """y = argmax_o Pr(x_1 = o | x_2..x_T, x_1 in `openings`); ties go to the first, the more frequent one.

    The generator's latent choice is its first word, one of `openings` (word ids), drawn from its distribution
    renormalised over them; the sentences to label are the T - 1 words that follow. By Bayes' rule the
    posterior is Pr(o) Pr(x_2..x_T | o), normalised, which takes k forward passes per sentence. As for a
    hidden state, the mean of its largest probability is the best possible accuracy for the word that was
    drawn.
    """

    language: OpenedSentences
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


def opening_tasks(language: OpenedSentences) -> Sequence[OpeningTask]:
    """The tasks of distinguishing the 2 and the 4 most probable first words, if there are that many words."""
    if language.length < 2:
        return []
    ranked = language.first_word_log_probabilities().sort(descending=True, stable=True).indices.tolist()
    return [OpeningTask(language, tuple(ranked[:k])) for k in OPENINGS if k <= len(ranked)]
