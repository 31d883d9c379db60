"""Classification examples as a classifier reads them, whatever their source."""

import hashlib
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import PretrainedConfig

from isoloss.errors import BadInput
from isoloss.languages.task import LabelledSentences, TaskSplits
from isoloss.models.transformers import longest_input
from isoloss.objectives.tokens import FIRST_WORD, PAD, tokens_of_words


@runtime_checkable
class LabelledInputs(Protocol):
    """n examples with their labels, integers from 0."""

    @property
    def labels(self) -> Int[Tensor, " n"]:
        """The class of each example."""
        ...

    @property
    def tokens(self) -> int:
        """The number of tokens of the longest example."""
        ...

    def __len__(self) -> int:
        """n."""
        ...

    def __getitem__(self, rows: Tensor | slice) -> "LabelledInputs":
        """The examples with these indices, in this order."""
        ...

    def arguments(self, device: torch.device) -> dict[str, Any]:
        """The arguments for calling a `transformers` model, on `device`."""
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
        """The inputs of all three splits."""
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


def check_splits(splits: TaskSplits | InputSplits, classes: tuple[str, ...]) -> None:
    """Raise BadInput for splits on which nothing can be learnt or measured.

    That is: fewer than two classes, labels outside the classes, training examples of a single class, no
    validation examples, or fewer than two test examples.
    """
    if len(classes) < 2:
        raise BadInput(f"fine-tuning needs at least two classes, not {len(classes)}")
    # An error bar over test sentences needs two.
    least = {"train": 1, "validation": 1, "test": 2}
    for name in least:
        part: LabelledSentences | LabelledInputs = getattr(splits, name)
        if len(part) < least[name]:
            raise BadInput(f"the {name} split has {len(part)} examples; give at least {least[name]}")
        lowest, highest = int(part.labels.min()), int(part.labels.max())
        if lowest < 0 or highest >= len(classes):
            raise BadInput(
                f"labels of the {name} split lie between {lowest} and {highest}, but the {len(classes)} "
                "classes are numbered from 0"
            )
    if bool((splits.train.labels == splits.train.labels[0]).all()):
        raise BadInput(
            f"every training example is of the class '{classes[int(splits.train.labels[0])]}', so there is "
            "nothing to learn; draw more examples or choose another task"
        )


def check_fits(splits: TaskSplits, config: PretrainedConfig) -> None:
    """Raise BadInput for words or sentence lengths beyond what the model was built for."""
    for name, part in _by_name(splits).items():
        word = int(part.sentences.ids.max())
        if word + FIRST_WORD >= config.vocab_size:
            raise BadInput(
                f"the {name} split has a word number {word}, but the model knows "
                f"{config.vocab_size - FIRST_WORD} words; fine-tune on a task of its own language"
            )
        words = int(part.sentences.lengths.max())
        if (positions := longest_input(config)) is not None and words + 1 > positions:
            raise BadInput(
                f"the {name} split has sentences of {words} words, but the model reads {positions - 1}; "
                "fine-tune on a task of its own language"
            )


def splits_digest(splits: TaskSplits) -> str:
    """SHA-256 of all sentences and labels, in their order."""
    digest = hashlib.sha256()
    for part in _by_name(splits).values():
        for tensor in (part.sentences.ids, part.sentences.lengths, part.labels):
            digest.update(f"{tuple(tensor.shape)}".encode())
            digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def _by_name(splits: TaskSplits) -> dict[str, LabelledSentences]:
    return {"train": splits.train, "validation": splits.validation, "test": splits.test}
