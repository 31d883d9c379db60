"""What the head of a task predicts, with which a model was trained: which models have it, and its tables.

A further head is a further class here, which `models_on_text.head_of` finds.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

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
from isoloss.measurements.prediction import Head, SpecialTokens
from isoloss.models.adapters import number_of_classes, stored_in_adapter
from isoloss.models.folder_configuration import read_config
from isoloss.models.names import base_of_adapter
from isoloss.models.tokenizer import pad_token_of
from isoloss.objectives.batch import Batch
from isoloss.objectives.predicted_logits import logits_at_predictions, masked_logits
from isoloss.objectives.pretrained import IGNORED, rectangle

if TYPE_CHECKING:  # language models have no tables
    from isoloss.corpora.answered_texts import AnsweredCorpus, TaggedCorpus


@dataclass(frozen=True)
class TextClasses:
    """The class of each text, or pair of texts."""

    name: ClassVar[str] = "text classes"
    model_class: ClassVar[Any] = AutoModelForSequenceClassification
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
        ids, present = rectangle([each.ids for each in sentences], tokens.pad)
        rows = torch.arange(len(sentences))
        classes = torch.tensor([each.answer[0] for each in sentences])
        return Batch(ids, present, rows, torch.zeros_like(rows), classes)

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """The scores of the model's classes. Raises BadInput for a model that gives others."""
        return _scores_of_texts(model, batch)

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

    def is_possible_in(self, sentence: TokenSentence) -> bool:
        return bool(sentence.ids)

    def special_tokens(self, model: PreTrainedModel, name: str) -> SpecialTokens:
        return SpecialTokens(pad_token_of(model))

    def answers(self, table: Path, config: Any) -> "AnsweredCorpus":
        from isoloss.corpora.answered_texts import texts_with_labels

        return texts_with_labels(table, class_numbers(config))

    def batch(self, sentences: Sequence[TokenSentence], tokens: SpecialTokens, seeds: Sequence[int]) -> Batch:
        ids, present = rectangle([each.ids for each in sentences], tokens.pad)
        given = torch.tensor([each.answer for each in sentences])
        rows, classes = torch.ones_like(given).nonzero(as_tuple=True)
        return Batch(ids, present, rows, classes, given.flatten())

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m 2"]:
        """The scores of no, which are 0, and of yes, as a sigmoid has them."""
        yes = _scores_of_texts(model, batch)[batch.rows, batch.positions]
        return torch.stack([torch.zeros_like(yes), yes], dim=1)

    def example_answer(self, ids: Sequence[int], config: Any) -> Sequence[int]:
        return [0] * int(config.num_labels)


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

    def is_possible_in(self, sentence: TokenSentence) -> bool:
        return bool(sentence.maskable)

    def special_tokens(self, model: PreTrainedModel, name: str) -> SpecialTokens:
        return SpecialTokens(pad_token_of(model))

    def answers(self, table: Path, config: Any) -> "TaggedCorpus":
        from isoloss.corpora.answered_texts import words_with_classes

        return words_with_classes(table, class_numbers(config))

    def batch(self, sentences: Sequence[TokenSentence], tokens: SpecialTokens, seeds: Sequence[int]) -> Batch:
        ids, present = rectangle([each.ids for each in sentences], tokens.pad)
        given, _ = rectangle([each.answer for each in sentences], IGNORED, ids.shape[1])
        rows, positions = (given != IGNORED).nonzero(as_tuple=True)
        return Batch(ids, present, rows, positions, given[rows, positions])

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """The scores of the model's classes at each labelled token."""
        return masked_logits(model, batch)

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

    def is_possible_in(self, sentence: TokenSentence) -> bool:
        return bool(sentence.ids and sentence.answer)

    def special_tokens(self, model: PreTrainedModel, name: str) -> SpecialTokens:
        return SpecialTokens(pad_token_of(model), start=first_of_decoder(model))

    def answers(self, table: Path, config: Any) -> "AnsweredCorpus":
        from isoloss.corpora.answered_texts import texts_with_targets

        return texts_with_targets(table)

    def batch(self, sentences: Sequence[TokenSentence], tokens: SpecialTokens, seeds: Sequence[int]) -> Batch:
        """The decoder reads `tokens.start`, or without one the last token, and all of the target before that.

        Texts and targets are filled up to one width, so that an array tells its sentences from its positions.
        """
        targets, start = [each.answer for each in sentences], tokens.start
        width = max(map(len, (*targets, *(each.ids for each in sentences))))
        ids, present = rectangle([each.ids for each in sentences], tokens.pad, width)
        read = [[each[-1] if start is None else start, *each[:-1]] for each in targets]
        decoder_ids, of_target = rectangle(read, tokens.pad, width)
        rows, positions = of_target.nonzero(as_tuple=True)
        following, _ = rectangle(targets, tokens.pad, width)
        return Batch(ids, present, rows, positions, following[rows, positions], decoder_ids=decoder_ids)

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """The scores of the vocabulary at each position of the decoder."""
        if batch.decoder_ids is None:
            raise BadInput("the batch has no tokens for a decoder; make it with TargetText().batch")
        mask = batch.attention_mask.long()
        return logits_at_predictions(
            model, batch, attention_mask=mask, decoder_input_ids=batch.decoder_ids, use_cache=False
        )

    def example_answer(self, ids: Sequence[int], config: Any) -> Sequence[int]:
        return ids


def _scores_of_texts(model: nn.Module, batch: Batch) -> Float[Tensor, "n v"]:
    types = {} if batch.token_types is None else {"token_type_ids": batch.token_types}
    found = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask.long(), **types)
    logits: Tensor | None = getattr(found, "logits", None)
    if logits is None or logits.ndim != 2 or len(logits) != len(batch):
        raise BadInput(f"{type(model).__name__} gives no scores of a text's classes; take another model")
    return logits


NO_TOKEN = -1
"""A number that no token has."""


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


def answers_of(names: Sequence[str], head: Head, table: Path | None) -> "AnsweredCorpus | TaggedCorpus":
    """What a table has for models of these names to say. Raises BadInput for none, and for other classes."""
    if table is None:
        raise BadInput(f"{names[0]} has the head of a task ({head.name}); name a table by --text")
    refuse_other_classes(names, head)
    return head.answers(table, configuration_of_head(names[0], head))


def refuse_other_classes(names: Sequence[str], head: Head) -> None:
    """Raise BadInput for a model with other classes than the first one's, or with these in another order."""
    if not head.fewest_classes:
        return
    first, *others = names
    ours = class_numbers(configuration_of_head(first, head))
    for other in others:
        if class_numbers(configuration_of_head(other, head)) != ours:
            raise BadInput(f"{first} and {other} have different classes; compare models that share them")
