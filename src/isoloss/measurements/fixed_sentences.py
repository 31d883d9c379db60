"""Fixed sentences, the same for all models measured on them, with their predictions and labels."""

import itertools
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.errors import BadInput
from isoloss.languages.language import Language, SentenceSource
from isoloss.languages.sentences import PADDING, Sentences
from isoloss.measurements.quantity import LANGUAGES_AND_TEXT, AnySource, Subject
from isoloss.measurements.sampled_batches import SampledBatches
from isoloss.objectives.batch import Batch, ExactObjective, Objective, PretrainingObjective
from isoloss.objectives.tokens import FIRST_WORD
from isoloss.progress import Progress
from isoloss.results.tensors import Tensors, drawn_of, tensors_of


@dataclass(frozen=True)
class FixedSentences:
    """The predictions of each sentence: with `MaskedObjective`, one word.

    Several masks per sentence are averaged, as in the training loss.
    """

    batches: tuple[Batch, ...]

    @staticmethod
    def draw(
        source: SentenceSource | PackedCorpus, objective: PretrainingObjective, n: int, seed: int
    ) -> "FixedSentences":
        """Draw n sentences and what the objective predicts of them, each taken once (`once_each`).

        For a corpus, these are validation sequences.
        """
        from isoloss.objectives.masked import once_each  # a text is masked otherwise

        generator = torch.Generator().manual_seed(seed)
        if isinstance(source, PackedCorpus):
            sentences, _ = validation_sample(source, n, generator)
        else:
            sentences = source.sample(n, generator)
        return FixedSentences((once_each(objective).draw(sentences, generator),))

    def tensors(self) -> Tensors:
        """Those of the one batch that was drawn."""
        (batch,) = self.batches
        return tensors_of(batch)

    @staticmethod
    def of_tensors(tensors: Tensors) -> "FixedSentences":
        """The inverse of `tensors`."""
        return FixedSentences((drawn_of(Batch, tensors),))

    @property
    def joined(self) -> Batch:
        """All sentences in one batch, padded to the longest."""
        if len(self.batches) == 1:
            return self.batches[0]
        width = max(batch.input_ids.shape[1] for batch in self.batches)
        starts = itertools.accumulate(map(len, self.batches), initial=0)
        rows = torch.cat([b.rows + start for b, start in zip(self.batches, starts, strict=False)])
        positions, targets = (
            torch.cat([getattr(b, part) for b in self.batches]) for part in ("positions", "targets")
        )
        widened = [
            batch.per_sentence(lambda array: pad(array, (0, width - array.shape[1])))
            for batch in self.batches
        ]
        of_sentences = {name: torch.cat([each[name] for each in widened]) for name in widened[0]}
        return Batch(rows=rows, positions=positions, targets=targets, **of_sentences)


@runtime_checkable
class OnSentences(Protocol):
    """The settings of a quantity of fixed sentences."""

    @property
    def sentences(self) -> int:
        """How many are drawn."""
        ...

    @property
    def seed(self) -> int:
        """Determines the sentences, and everything else that is random."""
        ...


def draw_sentences(
    quantity: OnSentences,
    source: Language | PackedCorpus | SampledBatches,
    objective: Any,
    progress: Progress,  # noqa: ARG001
) -> FixedSentences:
    """`Quantity.draw` for a quantity on `sentences` sentences determined by `seed`: of a text, the first."""
    if isinstance(source, SampledBatches):
        return FixedSentences(tuple(source.first(quantity.sentences)))
    return FixedSentences.draw(source, objective, quantity.sentences, quantity.seed)


def validation_sample(
    corpus: PackedCorpus, n: int, generator: torch.Generator
) -> tuple[Sentences, Int[Tensor, " n"]]:
    """n sequences drawn without replacement, or all if there are no more, and the document of each."""
    sequences, documents = corpus.validation_sequences(), corpus.validation_documents()
    chosen = torch.randperm(len(sequences), generator=generator)[:n].sort().values
    return sequences[chosen], documents[chosen]


def draw_labelled_sentences(
    quantity: OnSentences,
    source: Language | PackedCorpus | SampledBatches,
    objective: Any,
    progress: Progress,
) -> FixedSentences:
    """As `draw_sentences`, for a quantity that needs `exact_labels`; raises BadInput as they do."""
    _ = exact_labels(source, objective)
    return draw_sentences(quantity, source, objective, progress)


DRAWN = (LANGUAGES_AND_TEXT, FixedSentences, draw_sentences)
DRAWN_WITH_LABELS = (LANGUAGES_AND_TEXT, FixedSentences, draw_labelled_sentences)
"""`sources`, `drawn_as` and `draw` of a quantity of fixed sentences."""


class Given(TypedDict):
    """What an estimator of flatness is given besides the model and the settings of its own."""

    batches: tuple[Batch, ...]
    objective: Objective
    distribution: "ExactLabelDistribution | None"
    progress: Progress


def given(drawn: FixedSentences, subject: Subject[AnySource], progress: Progress) -> Given:
    """For a quantity of `DRAWN_WITH_LABELS`: `gradient_norm(model, **given(drawn, subject, progress))`."""
    labels = exact_labels(subject.source, subject.objective)
    return Given(batches=drawn.batches, objective=subject.objective, distribution=labels, progress=progress)


def exact_labels(source: AnySource, objective: Objective) -> "ExactLabelDistribution | None":
    """The exact distribution of the labels, without sampling noise; None, i.e. the data's, on real text.

    Raises BadInput if the distribution is not known for this language and objective.
    """
    if source is None or isinstance(source, PackedCorpus | SampledBatches):
        return None
    if not isinstance(objective, ExactObjective):
        raise BadInput(
            f"the exact distribution of {objective} is not known, which this measure of flatness needs; "
            "measure it on masked words or next words"
        )
    return ExactLabelDistribution(source, objective, len(source.vocabulary) + FIRST_WORD)


@dataclass(frozen=True)
class ExactLabelDistribution:
    """The exact distribution of each prediction of a batch that `objective` made of the language's sentences.

    Pass it as `distribution` to `hessian_trace` and similar estimators. Sentences must have at most one
    masked word, since the masked distribution is that of one word given all others.
    """

    language: Language
    objective: ExactObjective
    tokens: int

    def __call__(self, batch: Batch) -> Float[Tensor, "m v"]:
        """Probabilities over the model's `tokens` tokens, float64, on the batch's device."""
        ids = batch.input_ids.cpu().clone()
        rows, positions = batch.rows.cpu(), batch.positions.cpu()
        sentences = _sentences(ids, batch)
        every = self.objective.every_prediction(sentences)
        counts = self.objective.predictions(sentences)
        # `every_prediction` is ordered by sentence and then position, as the distributions are.
        sentence_of = torch.arange(len(sentences)).repeat_interleave(counts)
        places = {
            key: place
            for place, key in enumerate(zip(sentence_of.tolist(), every.positions.tolist(), strict=True))
        }
        chosen = [places[key] for key in zip(rows.tolist(), positions.tolist(), strict=True)]
        distribution = self.objective.log_probabilities(self.language, sentences)[chosen].exp()
        whole = torch.zeros(len(chosen), self.tokens, dtype=torch.float64)
        # Which token stands for which outcome, found by passing in the tokens' numbers.
        outcomes = self.objective.outcomes(torch.arange(self.tokens).double().expand(len(chosen), -1)).long()
        return whole.scatter(1, outcomes, distribution).to(batch.rows.device)


def _sentences(ids: Tensor, batch: Batch) -> Sentences:
    """The sentences with the masked words restored; positions that show their own token are unchanged."""
    masked = ids[batch.rows.cpu(), batch.positions.cpu()] < FIRST_WORD
    words = masked & (batch.positions.cpu() > 0)
    ids[batch.rows.cpu()[words], batch.positions.cpu()[words]] = batch.targets.cpu()[words]
    real = batch.attention_mask.cpu()[:, 1:]
    return Sentences((ids[:, 1:] - FIRST_WORD).where(real, PADDING), real.sum(dim=1))
