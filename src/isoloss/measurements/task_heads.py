"""What the head of a task predicts, with which a model was trained: which models have it, and its tables.

A further head is a further class here, which `head_of` finds.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import torch
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
from isoloss.models.tokenizer import pad_token_of
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.task_heads import (
    SequenceClass,
    SequenceLabels,
    TargetToken,
    TokenClass,
    class_batch,
    labels_batch,
    target_batch,
    token_class_batch,
)

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
    """The class of each text, or pair of texts."""

    name: ClassVar[str] = "text classes"
    model_class: ClassVar[Any] = AutoModelForSequenceClassification
    objective: ClassVar[Objective] = SequenceClass()
    estimand: ClassVar[str] = "mean over texts, of each of which a class is predicted"
    needs: ClassVar[str] = "a token"
    left_to_right: ClassVar[bool] = False
    fewest_classes: ClassVar[int] = 2

    def is_possible_in(self, sentence: TokenSentence) -> bool:
        return bool(sentence.ids)

    def special_tokens(self, model: PreTrainedModel, name: str) -> SpecialTokens:
        return SpecialTokens(pad_token_of(model))

    def answers(self, table: Path, config: Any) -> "AnsweredCorpus":
        from isoloss.corpora.answered_texts import texts_with_classes

        return texts_with_classes(table, class_numbers(config))

    def batch(self, sentences: Sequence[TokenSentence], tokens: SpecialTokens, seeds: Sequence[int]) -> Batch:
        return class_batch(
            [each.ids for each in sentences], [each.answer[0] for each in sentences], tokens.pad
        )

    def example_answer(self, ids: Sequence[int], config: Any) -> Sequence[int]:
        return (0,)


@dataclass(frozen=True)
class TextLabels:
    """Of each text, or pair of texts, and each class, whether the class is one of the text's."""

    name: ClassVar[str] = "text labels"
    model_class: ClassVar[Any] = AutoModelForSequenceClassification
    objective: ClassVar[Objective] = SequenceLabels()
    estimand: ClassVar[str] = (
        "mean over texts of the mean over all classes, each of which is predicted to be or not"
    )
    needs: ClassVar[str] = "a token"
    left_to_right: ClassVar[bool] = False
    fewest_classes: ClassVar[int] = 1

    def is_possible_in(self, sentence: TokenSentence) -> bool:
        return bool(sentence.ids)

    def special_tokens(self, model: PreTrainedModel, name: str) -> SpecialTokens:
        return SpecialTokens(pad_token_of(model))

    def answers(self, table: Path, config: Any) -> "AnsweredCorpus":
        from isoloss.corpora.answered_texts import texts_with_labels

        return texts_with_labels(table, class_numbers(config))

    def batch(self, sentences: Sequence[TokenSentence], tokens: SpecialTokens, seeds: Sequence[int]) -> Batch:
        return labels_batch([each.ids for each in sentences], [each.answer for each in sentences], tokens.pad)

    def example_answer(self, ids: Sequence[int], config: Any) -> Sequence[int]:
        return [0] * int(config.num_labels)


@dataclass(frozen=True)
class TokenClasses:
    """The class of each word of each text, at the word's first token."""

    name: ClassVar[str] = "token classes"
    model_class: ClassVar[Any] = AutoModelForTokenClassification
    objective: ClassVar[Objective] = TokenClass()
    estimand: ClassVar[str] = (
        "mean over texts of the mean over their words, of each of which a class is predicted"
    )
    needs: ClassVar[str] = "a word with a class"
    left_to_right: ClassVar[bool] = False
    fewest_classes: ClassVar[int] = 2

    def is_possible_in(self, sentence: TokenSentence) -> bool:
        return bool(sentence.maskable)

    def special_tokens(self, model: PreTrainedModel, name: str) -> SpecialTokens:
        return SpecialTokens(pad_token_of(model))

    def answers(self, table: Path, config: Any) -> "TaggedCorpus":
        from isoloss.corpora.answered_texts import words_with_classes

        return words_with_classes(table, class_numbers(config))

    def batch(self, sentences: Sequence[TokenSentence], tokens: SpecialTokens, seeds: Sequence[int]) -> Batch:
        return token_class_batch(
            [each.ids for each in sentences], [each.answer for each in sentences], tokens.pad
        )

    def example_answer(self, ids: Sequence[int], config: Any) -> Sequence[int]:
        return [0] * len(ids)


@dataclass(frozen=True)
class TargetText:
    """Every token of the text that follows from a text, from that and the target's tokens before it."""

    name: ClassVar[str] = "target text"
    model_class: ClassVar[Any] = AutoModelForSeq2SeqLM
    objective: ClassVar[Objective] = TargetToken()
    estimand: ClassVar[str] = "mean over texts of the mean over the tokens of their targets"
    needs: ClassVar[str] = "a token, and a target with one"
    left_to_right: ClassVar[bool] = True
    fewest_classes: ClassVar[int] = 0

    def is_possible_in(self, sentence: TokenSentence) -> bool:
        return bool(sentence.ids and sentence.answer)

    def special_tokens(self, model: PreTrainedModel, name: str) -> SpecialTokens:
        return SpecialTokens(pad_token_of(model), start=first_of_decoder(model))

    def answers(self, table: Path, config: Any) -> "AnsweredCorpus":
        from isoloss.corpora.answered_texts import texts_with_targets

        return texts_with_targets(table)

    def batch(self, sentences: Sequence[TokenSentence], tokens: SpecialTokens, seeds: Sequence[int]) -> Batch:
        sources, targets = [each.ids for each in sentences], [each.answer for each in sentences]
        return target_batch(sources, targets, tokens.start, tokens.pad)

    def example_answer(self, ids: Sequence[int], config: Any) -> Sequence[int]:
        return ids


_OF_ADAPTERS = {
    "SEQ_CLS": "ForSequenceClassification",
    "TOKEN_CLS": "ForTokenClassification",
    "CAUSAL_LM": "ForCausalLM",
}
"""How the classes of models end for which an adapter is, by peft's name of its task."""
NO_TOKEN = -1
"""A number that no token has."""


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


def tell_padding(config: Any) -> None:
    """Models that read a text's last token recognise it by what fills the text up.

    Where nothing is named, no token is that, since any may be the text's own last: then only texts of one
    length can be passed together, as `kept_apart` finds. To be told once the model is made, since it keeps
    what its configuration then calls padding from gradients.
    """
    text = config.get_text_config()
    if getattr(text, "pad_token_id", None) is None:
        config.pad_token_id = text.pad_token_id = NO_TOKEN


def first_of_decoder(model: PreTrainedModel) -> int | None:
    """The token that the decoder reads first; None if it reads the target's last token first, as mBART does.

    Raises BadInput if the model's configuration does not say.
    """
    shift = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if shift is not None:
        probes = torch.tensor([[3, 4, 5], [6, 7, 8]], device=next(model.parameters()).device)
        with suppress(AttributeError, TypeError, ValueError):  # as most models say that they do not know
            first, of_other_target = (int(shift(probe[None])[0, 0]) for probe in probes)
            return first if first == of_other_target else None
    start = getattr(model.config, "decoder_start_token_id", None)
    if not isinstance(start, int):
        raise BadInput(
            f"{model.name_or_path} does not say what its decoder reads first; add decoder_start_token_id to "
            "its config.json"
        )
    return start
