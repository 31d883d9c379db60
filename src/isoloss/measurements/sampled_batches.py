"""A corpus's sentences in random order, as batches of predictions: the same for every model measured."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

import torch
from transformers import PreTrainedModel

from isoloss.corpora.token_sentences import Corpus, TokenSentence
from isoloss.errors import BadInput
from isoloss.measurements.prediction import MaskedTokens, Prediction, SpecialTokens
from isoloss.measurements.task_heads import TextClasses, TextLabels
from isoloss.models.tokenizer import number_of_tokens
from isoloss.objectives.batch import Batch, Objective, sentences_between
from isoloss.objectives.pretrained import rectangle
from isoloss.seeds import derived_seed

SENTENCES_A_BATCH = 64
FIRST_SENTENCES = 8
"""Those of the first batch, so that there is a number to look at soon."""


class ReadSentence(NamedTuple):
    """What is counted of a sentence; it is not `usable` if nothing can be predicted in it."""

    line: int
    usable: bool
    cut: bool
    tokens: int
    unknown: int


WARNED_ABOVE = 0.05
"""Share of a text's lines, or of its tokens, that a measurement can lack without a warning."""


def _in_percent(share: float) -> str:
    """To two digits.

    >>> _in_percent(0.0534), _in_percent(0.35), _in_percent(1.0)
    ('5.3 %', '35 %', '100 %')
    """
    return f"{100 * share:{'.2g' if share < 0.995 else '.0f'}} %"


@dataclass
class Reading:
    """What one pass over a corpus has encountered so far: its sentences, in the order in which they came."""

    sentences: list[ReadSentence] = field(default_factory=list)

    @property
    def lines(self) -> list[int]:
        """Those of the sentences yielded."""
        return [each.line for each in self.sentences if each.usable]

    @property
    def short(self) -> list[int]:
        """The lines of the sentences skipped, in which nothing can be predicted."""
        return [each.line for each in self.sentences if not each.usable]

    @property
    def cut(self) -> list[int]:
        """The lines of the sentences truncated to the model's positions."""
        return [each.line for each in self.sentences if each.usable and each.cut]

    @property
    def tokens(self) -> int:
        """How many were read, without those that the tokenizer adds to a text."""
        return sum(each.tokens for each in self.sentences)

    @property
    def unknown(self) -> int:
        """How many of the tokens are unknown ones."""
        return sum(each.unknown for each in self.sentences)

    @property
    def unknown_tokens(self) -> str:
        """How many of the tokens are unknown ones, in words."""
        return f"{self.unknown:,} of {self.tokens:,} tokens are unknown to the tokenizer"

    @property
    def notes(self) -> list[str]:
        """Sentences truncated or left out, and unknown tokens: warnings above a share of `WARNED_ABOVE`."""
        cut, short = len(self.cut), len(self.short)
        were = "sentence was" if cut == 1 else "sentences were"
        left_out = f"{short:,} sentences have nothing to predict and were left out"
        shares = {left_out: short / max(1, len(self.sentences))}
        shares[self.unknown_tokens] = self.unknown / max(1, self.tokens)
        return [f"{cut:,} {were} truncated to the model's maximum length"] * bool(cut) + [
            f"{'warning: ' * (share > WARNED_ABOVE)}{note} ({_in_percent(share)})"
            for note, share in shares.items()
            if share
        ]

    def of_first(self, measured: int) -> "Reading":
        """What there was before the sentence yielded after so many: batches are read whole, and then cut."""
        usable = (number for number, each in enumerate(self.sentences) if each.usable)
        return Reading(self.sentences[: next(islice(usable, measured, None), None)])


@dataclass
class SampledBatches:
    """Batches of a corpus in an order determined by `seed`, each sentence once; every pass yields the same.

    The first n sentences are thus a random sample of the corpus. A sentence's masks depend only on `seed` and
    its index in the corpus. `reading` is that of the latest pass, which raises BadInput if no sentence has
    anything to predict.
    """

    corpus: Corpus
    prediction: Prediction
    seed: int
    tokens: SpecialTokens
    reading: Reading = field(default_factory=Reading)

    @property
    def objective(self) -> Objective:
        """How the predictions are read off a model."""
        return self.prediction.objective

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
        return f"none of the {len(reading.short):,} lines has {self.prediction.needs}; give longer sentences"

    def _batch(self, numbers: list[int], reading: Reading) -> Batch | None:
        usable: list[tuple[int, TokenSentence]] = []
        for number, sentence in zip(numbers, self.corpus.sentences(numbers), strict=True):
            possible = self.prediction.is_possible_in(sentence)
            reading.sentences.append(
                ReadSentence(sentence.line, possible, sentence.cut, sentence.of_text, sentence.unknown)
            )
            if possible:
                usable.append((number, sentence))
        if not usable:
            return None
        sentences = [sentence for _, sentence in usable]
        seeds = [derived_seed(self.seed, "masks", number) for number, _ in usable]
        batch = self.prediction.batch(sentences, self.tokens, seeds)
        if not all(sentence.types for sentence in sentences):
            return batch
        types, _ = rectangle([sentence.types for sentence in sentences], 0)
        return replace(batch, token_types=types)


def random_batch(model: PreTrainedModel, prediction: Prediction, lengths: tuple[int, ...]) -> Batch:
    """Random sentences of these lengths, with what the model is to say of them, as a text would have it."""
    if isinstance(prediction, MaskedTokens):  # any token masks as well, and there may be no tokenizer
        prediction = replace(prediction, token=0)
    tokens, known = prediction.special_tokens(model, model.name_or_path), number_of_tokens(model)
    generator = torch.Generator().manual_seed(0)
    sentences = [torch.randint(known, (length,), generator=generator) for length in lengths]
    # Models that read a text's last token find it by what fills the text up.
    listed = [((ids + (ids == tokens.pad)) % known).tolist() for ids in sentences]
    end = getattr(model.config, "eos_token_id", None)
    if isinstance(prediction, TextClasses | TextLabels) and end in range(known) and end != tokens.pad:
        # Those of BART's and T5's kind find a text's class at its end-of-sentence token, and need one.
        inner = next(token for token in range(known) if token not in (end, tokens.pad))
        listed = [[*(inner if token == end else token for token in ids[:-1]), end] for ids in listed]
    answers = [prediction.example_answer(ids, model.config) for ids in listed]
    numbered = [
        TokenSentence(ids, list(range(len(ids))), line, answer=answer)
        for line, (ids, answer) in enumerate(zip(listed, answers, strict=True), start=1)
    ]
    return prediction.batch(numbered, tokens, range(len(numbered)))
