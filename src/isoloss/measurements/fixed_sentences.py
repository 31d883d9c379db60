"""Sentences that are the same for all models: a text's in random order, and a fixed set, with labels."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import torch
from torch import Tensor
from torch.nn.functional import pad

from isoloss.corpora.token_sentences import Corpus, TokenSentence
from isoloss.errors import BadInput
from isoloss.measurements.prediction import Prediction, SpecialTokens
from isoloss.measurements.quantity import LANGUAGES_AND_TEXT, Subject
from isoloss.objectives.batch import Batch, Objective, PretrainingObjective, sentences_between
from isoloss.objectives.pretrained import rectangle
from isoloss.progress import Progress
from isoloss.seeds import derived_seed

if TYPE_CHECKING:  # a text of the user's needs none of what languages and stored sets do
    from isoloss.corpora.packed_corpus import PackedCorpus
    from isoloss.languages.language import Language, SentenceSource
    from isoloss.results.tensors import Tensors

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
        return Reading(self.sentences[: next(itertools.islice(usable, measured, None), None)])


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


@dataclass(frozen=True)
class FixedSentences:
    """The predictions of each sentence: with `MaskedObjective`, one word.

    Several masks per sentence are averaged, as in the training loss. `pad` is the token that fills up
    sentences.
    """

    batches: tuple[Batch, ...]
    pad: int = 0

    @staticmethod
    def draw(
        source: "SentenceSource | PackedCorpus", objective: PretrainingObjective, n: int, seed: int
    ) -> "FixedSentences":
        """Draw n sentences and what the objective predicts of them, each taken once (`once_each`).

        For a corpus, these are validation sequences.
        """
        from isoloss.corpora.packed_corpus import PackedCorpus
        from isoloss.objectives.masked import once_each  # a text is masked otherwise

        generator = torch.Generator().manual_seed(seed)
        if isinstance(source, PackedCorpus):
            sentences, _ = source.validation_sample(n, generator)
        else:
            sentences = source.sample(n, generator)
        return FixedSentences((once_each(objective).draw(sentences, generator),))

    def tensors(self) -> "Tensors":
        """Those of the one batch that was drawn."""
        from isoloss.results.tensors import tensors_of

        (batch,) = self.batches
        return tensors_of(batch)

    @staticmethod
    def of_tensors(tensors: "Tensors") -> "FixedSentences":
        from isoloss.results.tensors import drawn_of

        return FixedSentences((drawn_of(Batch, tensors),))

    @property
    def joined(self) -> Batch:
        """All sentences in one batch, padded to the longest."""
        if len(self.batches) == 1:
            return self.batches[0]
        by_name = [batch.per_sentence(lambda array: array) for batch in self.batches]
        width = max(array.shape[1] for arrays in by_name for array in arrays.values())
        starts = itertools.accumulate(map(len, self.batches), initial=0)
        rows = torch.cat([b.rows + start for b, start in zip(self.batches, starts, strict=False)])
        positions, targets = (
            torch.cat([getattr(b, part) for b in self.batches]) for part in ("positions", "targets")
        )

        def widened(name: str, array: Tensor) -> Tensor:
            filling = self.pad if name in ("input_ids", "decoder_ids") else 0
            return pad(array, (0, width - array.shape[1]), value=filling)

        of_sentences = {
            name: torch.cat([widened(name, arrays[name]) for arrays in by_name]) for name in by_name[0]
        }
        return Batch(rows=rows, positions=positions, targets=targets, **of_sentences)


def draw_sentences(
    quantity: Any,
    source: "Language | PackedCorpus | SampledBatches",
    objective: Any,
    progress: Progress,  # noqa: ARG001
) -> FixedSentences:
    """`Quantity.draw` of a quantity with `sentences`, determined by its `seed`: of a text, the first."""
    if isinstance(source, SampledBatches):
        return FixedSentences(tuple(source.first(quantity.sentences)), source.tokens.pad)
    return FixedSentences.draw(source, objective, quantity.sentences, quantity.seed)


def draw_labelled_sentences(
    quantity: Any,
    source: "Language | PackedCorpus | SampledBatches",
    objective: Any,
    progress: Progress,
) -> FixedSentences:
    """As `draw_sentences`, for a quantity that needs exact labels; raises BadInput if none are known."""
    labelled((), source, objective)
    return draw_sentences(quantity, source, objective, progress)


DRAWN = (LANGUAGES_AND_TEXT, FixedSentences, draw_sentences)
DRAWN_WITH_LABELS = (LANGUAGES_AND_TEXT, FixedSentences, draw_labelled_sentences)
"""`sources`, `drawn_as` and `draw` of a quantity of fixed sentences."""


class Given(TypedDict):
    """What an estimator of flatness is given besides the model and the settings of its own."""

    batches: tuple[Batch, ...]
    objective: Objective
    progress: Progress


def given(drawn: FixedSentences, subject: Subject[Any], progress: Progress) -> Given:
    """For a quantity of `DRAWN_WITH_LABELS`: `gradient_norm(model, **given(drawn, subject, progress))`."""
    batches = labelled(drawn.batches, subject.source, subject.objective)
    return Given(batches=batches, objective=subject.objective, progress=progress)


def labelled(batches: Iterable[Batch], source: Any, objective: Objective) -> tuple[Batch, ...]:
    """The batches with their labels' exact distributions, without sampling noise; as they are on real text.

    Raises BadInput if the distribution is not known for this language and objective.
    """
    if source is None or isinstance(source, SampledBatches):
        return tuple(batches)
    from isoloss.corpora.packed_corpus import PackedCorpus
    from isoloss.objectives.masked import MaskedObjective
    from isoloss.objectives.next_word import NextWordObjective
    from isoloss.objectives.soft_labels import with_exact_labels

    if isinstance(source, PackedCorpus):
        return tuple(batches)
    if not isinstance(objective, MaskedObjective | NextWordObjective):
        raise BadInput(
            f"the exact distribution of {objective} is not known, which this measure of flatness needs; "
            "measure it on masked words or next words"
        )
    return tuple(with_exact_labels(batch, source, objective) for batch in filter(len, batches))
