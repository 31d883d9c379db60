"""A corpus's sentences in random order, masked, as batches: the same for every model measured."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch

from isoloss.corpora.token_sentences import Corpus, TokenSentence
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective, sentences_between
from isoloss.objectives.pretrained import (
    PretrainedCausal,
    PretrainedMasked,
    choose_places,
    masked_batch,
    next_token_batch,
    rectangle,
)
from isoloss.seeds import derived_seed

SENTENCES_A_BATCH = 64
FIRST_SENTENCES = 8
"""Those of the first batch, so that there is a number to look at soon."""


@dataclass(frozen=True)
class OneMask:
    """One token per sentence is masked, uniformly among the maskable ones."""

    mask_token: int
    objective: ClassVar[Objective] = PretrainedMasked()
    estimand: ClassVar[str] = "mean over sentences and over all maskable positions t of one masked token at t"


@dataclass(frozen=True)
class ShareMasked:
    """`share` of each sentence's maskable tokens, at least one, are masked at once with the mask token."""

    mask_token: int
    share: float = 0.15
    objective: ClassVar[Objective] = PretrainedMasked()

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise BadInput(f"the mask rate must be above 0 and at most 1, not {self.share}")

    @property
    def estimand(self) -> str:
        """What a value is the mean of, as of the others."""
        return (
            f"mean over sentences of the mean over {100 * self.share:.3g} % of their maskable tokens, masked "
            "at once and all by the mask token"
        )


@dataclass(frozen=True)
class NextToken:
    """Every token but a sentence's first is predicted."""

    objective: ClassVar[Objective] = PretrainedCausal()
    estimand: ClassVar[str] = (
        "mean over sentences of the mean over their predicted positions, all but the first"
    )


@dataclass(frozen=True)
class TextClasses:
    """The class of each text; of each of its words, if `of_tokens`."""

    of_tokens: bool = False

    @property
    def objective(self) -> Objective:
        """How the predictions are read off a model, as of the others."""
        from isoloss.objectives.answers import SequenceClass, TokenClass  # language models need none

        return TokenClass() if self.of_tokens else SequenceClass()

    @property
    def estimand(self) -> str:
        """See `ShareMasked.estimand`."""
        if self.of_tokens:
            return "mean over texts of the mean over their words, of each of which a class is predicted"
        return "mean over texts, of each of which a class is predicted"


@dataclass(frozen=True)
class TextLabels:
    """Of each text and each class, whether the class is one of the text's."""

    estimand: ClassVar[str] = (
        "mean over texts of the mean over all classes, each of which is predicted to be or not"
    )

    @property
    def objective(self) -> Objective:
        """See `TextClasses.objective`."""
        from isoloss.objectives.answers import SequenceLabels

        return SequenceLabels()


@dataclass(frozen=True)
class TargetText:
    """Every token of a target; its decoder reads `start` first, None: the target's own last token."""

    start: int | None
    estimand: ClassVar[str] = "mean over texts of the mean over the tokens of their targets"

    @property
    def objective(self) -> Objective:
        """See `TextClasses.objective`."""
        from isoloss.objectives.answers import TargetToken

        return TargetToken()


Predicting = OneMask | ShareMasked | NextToken | TextClasses | TextLabels | TargetText


@dataclass
class Reading:
    """What one pass over a corpus has encountered so far.

    `lines` are those of the sentences yielded, `short` of those skipped, in which nothing can be predicted,
    `cut` of those truncated to the model's positions; `tokens` counts the tokens read, without those that the
    tokenizer adds to a text, and `unknown` the unknown ones among them.
    """

    lines: list[int] = field(default_factory=list)
    short: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    tokens: int = 0
    unknown: int = 0


@dataclass
class SampledBatches:
    """Batches of a corpus in an order determined by `seed`, each sentence once; every pass yields the same.

    The first n sentences are thus a random sample of the corpus. A sentence's masks depend only on `seed` and
    its index in the corpus. `reading` is that of the latest pass, which raises BadInput if no sentence has
    anything to predict.
    """

    corpus: Corpus
    predicting: Predicting
    seed: int
    pad_token: int = 0
    reading: Reading = field(default_factory=Reading)

    @property
    def objective(self) -> Objective:
        """How the predictions are read off a model."""
        return self.predicting.objective

    def __iter__(self) -> Iterator[Batch]:
        reading = self.reading = Reading()
        order = torch.randperm(
            len(self.corpus), generator=torch.Generator().manual_seed(derived_seed(self.seed, "order"))
        )
        ends = [FIRST_SENTENCES, *range(SENTENCES_A_BATCH, len(order), SENTENCES_A_BATCH)]
        for numbers in filter(len, order.tensor_split(ends)):
            batch = self._batch(numbers.tolist(), reading)
            if batch is not None:
                yield batch
        if reading.short and not reading.lines:
            raise BadInput(self._nothing_to_predict(reading))

    def first(self, sentences: int) -> list[Batch]:
        """Batches of the first `sentences` sentences, or of as many as there are."""
        whole: list[Batch] = []
        for batch in self:
            whole.append(batch)
            if sum(map(len, whole)) >= sentences:
                break
        surplus = sum(map(len, whole)) - sentences
        if surplus > 0:
            whole[-1] = sentences_between(whole[-1], 0, len(whole[-1]) - surplus)
        return whole

    def _nothing_to_predict(self, reading: Reading) -> str:
        if reading.unknown:
            return (
                f"nothing can be predicted: {reading.unknown:,} of {reading.tokens:,} tokens are unknown to "
                "the tokenizer; give a text in its language and spelling (does do_lower_case of its "
                "tokenizer_config.json fit its vocabulary, and does white space part its words?), or token "
                "numbers with --token-ids"
            )
        needed = "two tokens" if isinstance(self.predicting, NextToken) else "a token that may be masked"
        return f"none of the {len(reading.short):,} lines has {needed}; give longer sentences"

    def _predictable(self, sentence: TokenSentence) -> Sequence[int]:
        match self.predicting:
            case OneMask() | ShareMasked() | TextClasses(of_tokens=True):
                return sentence.maskable
            case TargetText():
                return sentence.answer if sentence.ids else ()
        return sentence.ids

    def _batch(self, numbers: list[int], reading: Reading) -> Batch | None:
        needed = 2 if isinstance(self.predicting, NextToken) else 1
        usable: list[tuple[int, TokenSentence]] = []
        for number, sentence in zip(numbers, self.corpus.sentences(numbers), strict=True):
            reading.tokens += sentence.of_text
            reading.unknown += sentence.unknown
            predictable = self._predictable(sentence)
            if len(predictable) < needed:
                reading.short.append(sentence.line)
                continue
            usable.append((number, sentence))
            reading.lines.append(sentence.line)
            if sentence.cut:
                reading.cut.append(sentence.line)
        if not usable:
            return None
        sentences = [sentence.ids for _, sentence in usable]
        if isinstance(self.predicting, NextToken):
            return next_token_batch(sentences, self.pad_token)
        if not isinstance(self.predicting, OneMask | ShareMasked):
            return self._answers(self.predicting, [sentence for _, sentence in usable])
        share = self.predicting.share if isinstance(self.predicting, ShareMasked) else None
        generator = torch.Generator()
        places = [
            choose_places(
                sentence.maskable, share, generator.manual_seed(derived_seed(self.seed, "masks", number))
            )
            for number, sentence in usable
        ]
        return masked_batch(sentences, places, self.predicting.mask_token, self.pad_token)

    def _answers(
        self, predicting: TextClasses | TextLabels | TargetText, sentences: Sequence[TokenSentence]
    ) -> Batch:
        from isoloss.objectives import answers as of_texts

        texts, answers = [each.ids for each in sentences], [each.answer for each in sentences]
        if isinstance(predicting, TargetText):
            return of_texts.target_batch(texts, answers, predicting.start, self.pad_token)
        if isinstance(predicting, TextLabels):
            return self._typed(of_texts.labels_batch(texts, answers, self.pad_token), sentences)
        if predicting.of_tokens:
            return of_texts.token_class_batch(texts, answers, self.pad_token)
        classes = of_texts.class_batch(texts, [answer[0] for answer in answers], self.pad_token)
        return self._typed(classes, sentences)

    @staticmethod
    def _typed(batch: Batch, sentences: Sequence[TokenSentence]) -> Batch:
        """With the types of their tokens, if they are pairs of which a tokenizer tells."""
        if not all(sentence.types for sentence in sentences):
            return batch
        types, _ = rectangle([sentence.types for sentence in sentences], 0)
        return replace(batch, token_types=types)


def predicting_of(prediction: str, mask_token: int | None, share: float, start: int | None) -> Predicting:
    """What models predict, by a `Prediction` or the `Head` of a task, and what of it they read first.

    >>> predicting_of("causal", None, 0.15, None)
    NextToken()
    """
    match prediction:
        case "masked":
            assert mask_token is not None  # without one, masked models are refused
            return ShareMasked(mask_token, share)
        case "causal":
            return NextToken()
        case "target text":
            return TargetText(start)
        case "text labels":
            return TextLabels()
    return TextClasses(of_tokens=prediction == "token classes")
