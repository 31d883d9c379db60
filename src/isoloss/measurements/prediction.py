"""What a model predicts: its class, how sentences become batches for it, and what its loss is the mean of.

Language models predict masked tokens or the next one; those with the head of a task, what is in `task_heads`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from transformers import PreTrainedModel

from isoloss.corpora.token_sentences import TokenSentence
from isoloss.errors import BadInput
from isoloss.models.loading import LanguageObjective, language_model_class
from isoloss.models.tokenizer import load_tokenizer, number_of_tokens, pad_token_of
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.pretrained import (
    PretrainedCausal,
    PretrainedMasked,
    choose_places,
    masked_batch,
    next_token_batch,
)


@dataclass(frozen=True)
class SpecialTokens:
    """Tokens that are not a sentence's own: what fills it up, what masks others, what a decoder reads first.

    `start` is None where a decoder reads the target's last token first, or there is none, and `mask` where
    nothing is masked.
    """

    pad: int = 0
    mask: int | None = None
    start: int | None = None


@runtime_checkable
class Prediction(Protocol):
    """What a model predicts; a frozen dataclass of its settings, the same of models that predict alike."""

    model_class: ClassVar[Any]
    """The class of `transformers` that loads such models, and builds them from configurations."""
    objective: ClassVar[Objective]
    """How the predictions are read off a model."""
    needs: ClassVar[str]
    """What there must be in a line, in words."""
    left_to_right: ClassVar[bool]
    """Whether tokens are predicted one after another, by a model that must not see what follows."""

    @property
    def name(self) -> str:
        """In words."""
        ...

    @property
    def estimand(self) -> str:
        """What a value is the mean of."""
        ...

    def is_possible_in(self, sentence: TokenSentence) -> bool:
        """Whether there is anything to predict."""
        ...

    def special_tokens(self, model: PreTrainedModel, name: str) -> SpecialTokens:
        """Those of the model of this name. Raises BadInput if neither it nor its tokenizer names one."""
        ...

    def batch(self, sentences: Sequence[TokenSentence], tokens: SpecialTokens, seeds: Sequence[int]) -> Batch:
        """All predictions in these sentences; what is random in one is determined by its seed."""
        ...

    def example_answer(self, ids: Sequence[int], config: Any) -> Sequence[int]:
        """What a table might have a model of this configuration say of the sentence; nothing without one."""
        ...


@dataclass(frozen=True)
class MaskedTokens:
    """`share` of each sentence's maskable tokens, at least one, masked at once; None: one of them, uniformly.

    They are masked with `token`; None: with the mask token of the model's tokenizer.
    """

    share: float | None = 0.15
    token: int | None = None

    name: ClassVar[LanguageObjective] = "masked"
    model_class: ClassVar[Any] = language_model_class("masked")
    objective: ClassVar[Objective] = PretrainedMasked()
    needs: ClassVar[str] = "a token that may be masked"
    left_to_right: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.share is not None and not 0 < self.share <= 1:
            raise BadInput(f"the mask rate must be above 0 and at most 1, not {self.share}")

    @property
    def estimand(self) -> str:
        if self.share is None:
            return "mean over sentences and over all maskable positions t of one masked token at t"
        return (
            f"mean over sentences of the mean over {100 * self.share:.3g} % of their maskable tokens, masked "
            "at once and all by the mask token"
        )

    def is_possible_in(self, sentence: TokenSentence) -> bool:
        return bool(sentence.maskable)

    def special_tokens(self, model: PreTrainedModel, name: str) -> SpecialTokens:
        mask = _mask_token_of(name) if self.token is None else self.token
        if not 0 <= mask < number_of_tokens(model):
            raise BadInput(f"the mask token {mask} is none of the model's {number_of_tokens(model)} tokens")
        return SpecialTokens(pad_token_of(model), mask=mask)

    def batch(self, sentences: Sequence[TokenSentence], tokens: SpecialTokens, seeds: Sequence[int]) -> Batch:
        assert tokens.mask is not None  # without one, masked models are refused
        generator = torch.Generator()
        places = [
            choose_places(sentence.maskable, self.share, generator.manual_seed(seed))
            for sentence, seed in zip(sentences, seeds, strict=True)
        ]
        return masked_batch([each.ids for each in sentences], places, tokens.mask, tokens.pad)

    def example_answer(self, ids: Sequence[int], config: Any) -> Sequence[int]:
        return ()


def _mask_token_of(name: str) -> int:
    try:
        mask = load_tokenizer(name).mask_token_id
    except BadInput:
        mask = None
    if mask is None:
        raise BadInput(f"no tokenizer of {name} names a mask token; say its number with --mask-token-id")
    return int(mask)


@dataclass(frozen=True)
class NextToken:
    """Every token but a sentence's first, from those before it."""

    name: ClassVar[LanguageObjective] = "causal"
    model_class: ClassVar[Any] = language_model_class("causal")
    objective: ClassVar[Objective] = PretrainedCausal()
    estimand: ClassVar[str] = (
        "mean over sentences of the mean over their predicted positions, all but the first"
    )
    needs: ClassVar[str] = "two tokens"
    left_to_right: ClassVar[bool] = True

    def is_possible_in(self, sentence: TokenSentence) -> bool:
        return len(sentence.ids) > 1

    def special_tokens(self, model: PreTrainedModel, name: str) -> SpecialTokens:
        return SpecialTokens(pad_token_of(model))

    def batch(self, sentences: Sequence[TokenSentence], tokens: SpecialTokens, seeds: Sequence[int]) -> Batch:
        return next_token_batch([each.ids for each in sentences], tokens.pad)

    def example_answer(self, ids: Sequence[int], config: Any) -> Sequence[int]:
        return ()
