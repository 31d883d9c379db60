"""Hidden-state tasks: which state emitted the k-th word, the paper's task-k (Section 2.2, A.1)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from isoloss.languages.sentences import Sentences
from isoloss.languages.task import LabelledSentences, most_probable

if TYPE_CHECKING:
    from isoloss.languages.hmm import HMM

SENTENCES_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class StateTask:
    """y = argmax_s Pr(z_k = s | x), k = `position` from 1; ties go to the first state.

    The posterior that comes with the labels is the ceiling: the mean of its largest probabilities is how
    often any reader of the sentences alone, at best, names the state that truly emitted the word.
    """

    language: "HMM"
    position: int

    @property
    def name(self) -> str:
        """`state-6` for the state of the sixth word."""
        return f"state-{self.position}"

    @property
    def classes(self) -> tuple[str, ...]:
        """The states by number, from 1."""
        return tuple(str(state) for state in range(1, len(self.language.initial) + 1))

    def sample(self, n: int, generator: torch.Generator) -> LabelledSentences:
        """Draw n sentences, and label them with the exact posterior."""
        return self.label(self.language.sample(n, generator))

    def label(self, sentences: Sentences) -> LabelledSentences:
        """The posterior of each sentence's k-th state, and its argmax; BadInput for an impossible one."""
        posterior = torch.empty(len(sentences), len(self.classes), dtype=torch.float64)
        for start in range(0, len(sentences), SENTENCES_AT_ONCE):
            rows = slice(start, start + SENTENCES_AT_ONCE)
            posterior[rows] = self.language.state_posteriors(sentences[rows])[:, self.position - 1]
        return LabelledSentences(sentences, most_probable(posterior), posterior)
