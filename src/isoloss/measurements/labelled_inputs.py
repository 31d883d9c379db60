"""Examples of a classification as a classifier reads them, whatever they are made of."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from isoloss.languages.task import LabelledSentences, TaskSplits
from isoloss.objectives.tokens import PAD, tokens_of_words


@runtime_checkable
class LabelledInputs(Protocol):
    """n examples with their labels, numbers from 0."""

    @property
    def labels(self) -> Int[Tensor, " n"]:
        """The class of each example."""
        ...

    @property
    def tokens(self) -> int:
        """How many tokens the longest example has."""
        ...

    def __len__(self) -> int:
        """n."""
        ...

    def __getitem__(self, rows: Tensor | slice) -> "LabelledInputs":
        """The examples with these numbers, in this order."""
        ...

    def arguments(self, device: torch.device) -> dict[str, Any]:
        """What a model of `transformers` is called with, on `device`."""
        ...


@dataclass(frozen=True)
class InputSplits:
    """Train, validation and test examples."""

    train: LabelledInputs
    validation: LabelledInputs
    test: LabelledInputs


@dataclass(frozen=True)
class SentenceInputs:
    """A language's labelled sentences, each after a [CLS]."""

    examples: LabelledSentences

    @staticmethod
    def of(splits: TaskSplits) -> InputSplits:
        """The same of all three splits."""
        return InputSplits(*map(SentenceInputs, (splits.train, splits.validation, splits.test)))

    @property
    def labels(self) -> Int[Tensor, " n"]:
        """See `LabelledInputs`."""
        return self.examples.labels

    @property
    def tokens(self) -> int:
        """See `LabelledInputs`."""
        return self.examples.sentences.ids.shape[1] + 1

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, rows: Tensor | slice) -> "SentenceInputs":
        return SentenceInputs(self.examples[rows])

    def arguments(self, device: torch.device) -> dict[str, Any]:
        """See `LabelledInputs`; the attention mask is left out when nothing is padded."""
        tokens = tokens_of_words(self.examples.sentences.ids).to(device)
        present = tokens != PAD
        return {"input_ids": tokens, "attention_mask": None if bool(present.all()) else present}
