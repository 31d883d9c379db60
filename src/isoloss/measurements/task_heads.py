"""What the head of a task predicts, with which a model was trained: which models have it, and its tables.

A further head is a further class here, which `head_of` finds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from isoloss.corpora.token_sentences import TokenSentence
from isoloss.errors import BadInput
from isoloss.measurements.prediction import Prediction, SpecialTokens
from isoloss.models.adapters import base_of_adapter, number_of_classes, stored_in_adapter, task_of_adapter
from isoloss.models.folder_configuration import read_config
from isoloss.models.tokenizer import first_of_decoder, pad_token_of
from isoloss.objectives.batch import Batch
from isoloss.objectives.predicted_logits import logits_at_predictions, masked_logits
from isoloss.objectives.pretrained import IGNORED, rectangle

if TYPE_CHECKING:  # language models have no tables
    from isoloss.corpora.answered_texts import AnsweredCorpus, TaggedCorpus


@runtime_checkable
class Head(Prediction, Protocol):
    """What the head of a task predicts, of texts that are the rows of a table."""

    fewest_classes: ClassVar[int]
    """How many classes a model must have, for there to be a distribution; 0 if there are none."""

    def answers(self, table: Path, config: Any) -> "AnsweredCorpus | TaggedCorpus":
        """The rows, for a model of that configuration. Raises BadInput for a table that does not fit."""
        ...


@dataclass(frozen=True)
class TextClasses:
    """The class of each text, or pair of texts: one prediction a text, among the classes of its model."""

    name: ClassVar[str] = "text classes"
    model_class: ClassVar[Any] = AutoModelForSequenceClassification
    estimand: ClassVar[str] = "mean over texts, of each of which a class is predicted"
    needs: ClassVar[str] = "a token"
    left_to_right: ClassVar[bool] = False
    fewest_classes: ClassVar[int] = 2

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """The scores of the model's classes. Raises BadInput for a model that gives others."""
        return _scores_of_texts(model, batch)

    def is_possible_in(self, sentence: TokenSentence) -> bool:
        return bool(sentence.ids)

    def special_tokens(self, model: PreTrainedModel, name: str) -> SpecialTokens:
        return SpecialTokens(pad_token_of(model))

    def answers(self, table: Path, config: Any) -> "AnsweredCorpus":
        from isoloss.corpora.answered_texts import texts_with_classes

        return texts_with_classes(table, class_numbers(config))

    def batch(self, sentences: Sequence[TokenSentence], tokens: SpecialTokens, seeds: Sequence[int]) -> Batch:
        """A text and its class in each row.

        >>> texts = [TokenSentence([5, 6], [], 1, answer=[1]), TokenSentence([7], [], 2, answer=[0])]
        >>> TextClasses().batch(texts, SpecialTokens(), ()).targets.tolist()
        [1, 0]
        """
        ids, present = rectangle([each.ids for each in sentences], tokens.pad)
        rows = torch.arange(len(sentences))
        classes = torch.tensor([each.answer[0] for each in sentences])
        return Batch(ids, present, rows, torch.zeros_like(rows), classes)

    def example_answer(self, ids: Sequence[int], config: Any) -> Sequence[int]:
        return (0,)


@dataclass(frozen=True)
class TextLabels:
    """Of each text, or pair of texts, and each class, whether the class is one of the text's."""

    name: ClassVar[str] = "text labels"
    model_class: ClassVar[Any] = AutoModelForSequenceClassification
    estimand: ClassVar[str] = (
        "mean over texts of the mean over all classes, each of which is predicted to be or not"
    )
    needs: ClassVar[str] = "a token"
    left_to_right: ClassVar[bool] = False
    fewest_classes: ClassVar[int] = 1

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m 2"]:
        """The scores of no, which are 0, and of yes, as a sigmoid has them."""
        yes = _scores_of_texts(model, batch)[batch.rows, batch.positions]
        return torch.stack([torch.zeros_like(yes), yes], dim=1)

    def is_possible_in(self, sentence: TokenSentence) -> bool:
        return bool(sentence.ids)

    def special_tokens(self, model: PreTrainedModel, name: str) -> SpecialTokens:
        return SpecialTokens(pad_token_of(model))

    def answers(self, table: Path, config: Any) -> "AnsweredCorpus":
        from isoloss.corpora.answered_texts import texts_with_labels

        return texts_with_labels(table, class_numbers(config))

    def batch(self, sentences: Sequence[TokenSentence], tokens: SpecialTokens, seeds: Sequence[int]) -> Batch:
        """A text in each row, and for every class whether it is one of the text's, 1, or not, 0.

        >>> answers = [[1, 0, 1], [0, 0, 0]]
        >>> texts = [TokenSentence([5, 6], [], 1, answer=each) for each in answers]
        >>> batch = TextLabels().batch(texts, SpecialTokens(), ())
        >>> batch.rows.tolist(), batch.positions.tolist(), batch.targets.tolist()
        ([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], [1, 0, 1, 0, 0, 0])
        """
        ids, present = rectangle([each.ids for each in sentences], tokens.pad)
        given = torch.tensor([each.answer for each in sentences])
        rows, classes = torch.ones_like(given).nonzero(as_tuple=True)
        return Batch(ids, present, rows, classes, given.flatten())

    def example_answer(self, ids: Sequence[int], config: Any) -> Sequence[int]:
        return [0] * int(config.num_labels)


def _scores_of_texts(model: nn.Module, batch: Batch) -> Float[Tensor, "n v"]:
    types = {} if batch.token_types is None else {"token_type_ids": batch.token_types}
    found = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask.long(), **types)
    logits: Tensor | None = getattr(found, "logits", None)
    if logits is None or logits.ndim != 2 or len(logits) != len(batch):
        raise BadInput(f"{type(model).__name__} gives no scores of a text's classes; take another model")
    return logits


@dataclass(frozen=True)
class TokenClasses:
    """The class of each word of each text, at the word's first token."""

    name: ClassVar[str] = "token classes"
    model_class: ClassVar[Any] = AutoModelForTokenClassification
    estimand: ClassVar[str] = (
        "mean over texts of the mean over their words, of each of which a class is predicted"
    )
    needs: ClassVar[str] = "a word with a class"
    left_to_right: ClassVar[bool] = False
    fewest_classes: ClassVar[int] = 2

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """The scores of the model's classes at each labelled token."""
        return masked_logits(model, batch)

    def is_possible_in(self, sentence: TokenSentence) -> bool:
        return bool(sentence.maskable)

    def special_tokens(self, model: PreTrainedModel, name: str) -> SpecialTokens:
        return SpecialTokens(pad_token_of(model))

    def answers(self, table: Path, config: Any) -> "TaggedCorpus":
        from isoloss.corpora.answered_texts import words_with_classes

        return words_with_classes(table, class_numbers(config))

    def batch(self, sentences: Sequence[TokenSentence], tokens: SpecialTokens, seeds: Sequence[int]) -> Batch:
        """A class for each token; `IGNORED` for one without.

        >>> texts = [TokenSentence([5, 6], [1], 1, answer=[-100, 2]), TokenSentence([7], [0], 2, answer=[0])]
        >>> batch = TokenClasses().batch(texts, SpecialTokens(), ())
        >>> batch.rows.tolist(), batch.positions.tolist(), batch.targets.tolist()
        ([0, 1], [1, 0], [2, 0])
        """
        ids, present = rectangle([each.ids for each in sentences], tokens.pad)
        given, _ = rectangle([each.answer for each in sentences], IGNORED, ids.shape[1])
        rows, positions = (given != IGNORED).nonzero(as_tuple=True)
        return Batch(ids, present, rows, positions, given[rows, positions])

    def example_answer(self, ids: Sequence[int], config: Any) -> Sequence[int]:
        return [0] * len(ids)


@dataclass(frozen=True)
class TargetText:
    """Every token of the text that follows from a text, from that and the target's tokens before it."""

    name: ClassVar[str] = "target text"
    model_class: ClassVar[Any] = AutoModelForSeq2SeqLM
    estimand: ClassVar[str] = "mean over texts of the mean over the tokens of their targets"
    needs: ClassVar[str] = "a token, and a target with one"
    left_to_right: ClassVar[bool] = True
    fewest_classes: ClassVar[int] = 0

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """The scores of the vocabulary at each position of the decoder."""
        if batch.decoder_ids is None:
            raise BadInput("the batch has no tokens for a decoder; make it with TargetText.batch")
        mask = batch.attention_mask.long()
        return logits_at_predictions(
            model, batch, attention_mask=mask, decoder_input_ids=batch.decoder_ids, use_cache=False
        )

    def is_possible_in(self, sentence: TokenSentence) -> bool:
        return bool(sentence.ids and sentence.answer)

    def special_tokens(self, model: PreTrainedModel, name: str) -> SpecialTokens:
        return SpecialTokens(pad_token_of(model), start=first_of_decoder(model))

    def answers(self, table: Path, config: Any) -> "AnsweredCorpus":
        from isoloss.corpora.answered_texts import texts_with_targets

        return texts_with_targets(table)

    def batch(self, sentences: Sequence[TokenSentence], tokens: SpecialTokens, seeds: Sequence[int]) -> Batch:
        """The decoder reads `tokens.start` and all of the target but its last token.

        Without a start, the last token is read first. Sources and targets are filled up to one width, so that
        an array tells its sentences from its positions.

        >>> text = TokenSentence([5, 6, 9], [], 1, answer=[7, 8])
        >>> batch = TargetText().batch([text], SpecialTokens(start=1), ())
        >>> batch.decoder_ids.tolist(), batch.positions.tolist(), batch.targets.tolist()
        ([[1, 7, 0]], [0, 1], [7, 8])
        """
        sources, targets = [each.ids for each in sentences], [each.answer for each in sentences]
        width = max(map(len, (*sources, *targets)))
        ids, present = rectangle(sources, tokens.pad, width)
        read = [[each[-1] if tokens.start is None else tokens.start, *each[:-1]] for each in targets]
        decoder_ids, of_target = rectangle(read, tokens.pad, width)
        rows, positions = of_target.nonzero(as_tuple=True)
        following, _ = rectangle(targets, tokens.pad, width)
        return Batch(ids, present, rows, positions, following[rows, positions], decoder_ids=decoder_ids)

    def example_answer(self, ids: Sequence[int], config: Any) -> Sequence[int]:
        return ids


_OF_ADAPTERS = {
    "SEQ_CLS": "ForSequenceClassification",
    "TOKEN_CLS": "ForTokenClassification",
    "CAUSAL_LM": "ForCausalLM",
}
"""How the classes of models end for which an adapter is, by peft's name of its task."""


def head_of(name: str) -> Head | None:
    """The kind of a model's head, by its configuration; None for a language model, and for any other head.

    Of an adapter, that of its task; if it names none, or is of an encoder and a decoder, its base model's.
    Raises BadInput for an adapter that answers questions.
    """
    base = base_of_adapter(name)
    config = read_config(base or name)
    ending_of_task = None if base is None else _OF_ADAPTERS.get(task_of_adapter(name) or "")
    for architecture in [ending_of_task] if ending_of_task else config.architectures or ():
        if architecture.endswith("ForSequenceClassification"):
            several = getattr(config, "problem_type", None) == "multi_label_classification"
            return TextLabels() if several else TextClasses()
        if architecture.endswith("ForTokenClassification"):
            return TokenClasses()
        if architecture.endswith(("QuestionAnswering", "ForCausalLM", "ForMaskedLM", "LMHeadModel")):
            return None
    return TargetText() if getattr(config, "is_encoder_decoder", False) else None


def configuration_of_head(name: str, head: Head) -> Any:
    """The configuration of the model of that name, which has such a head.

    Of an adapter, its base model's, with as many classes as the head that it stores. Raises BadInput for a
    model that predicts a number.
    """
    base = base_of_adapter(name)
    config = read_config(base or name)
    if not head.fewest_classes:
        return config
    if base is not None:
        config.num_labels = number_of_classes(stored_in_adapter(name)) or config.num_labels
    regression = getattr(config, "problem_type", None) == "regression"
    if regression or int(getattr(config, "num_labels", 2)) < head.fewest_classes:
        raise BadInput(f"{name} predicts a number, not a class, and has no distribution to measure")
    return config


def class_numbers(config: Any) -> dict[str, int]:
    """The number of each class of a model's configuration, by its name and by the number itself.

    By names alone where one of them is another class's number, as of stars that are called 1 to 5.
    """
    named = {str(name): int(number) for name, number in (config.label2id or {}).items()}
    by_number = {str(number): number for number in range(config.num_labels)}
    if any(name in by_number and by_number[name] != number for name, number in named.items()):
        return named
    return by_number | named
