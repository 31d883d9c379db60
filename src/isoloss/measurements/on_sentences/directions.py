"""The curvature of a checkpoint's loss along a direction: an update, a batch's gradient, another model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from isoloss.corpora.token_sentences import TextCorpus, TokenCorpus, read_text_corpus, read_token_corpus
from isoloss.curvature.critical_sharpness import CriticalSharpness, critical_sharpness
from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.directional_curvature import BATCH, batch_sharpness, directional_sharpness
from isoloss.curvature.fisher_trace import TRACE_UNIT
from isoloss.curvature.weight_changes import differences
from isoloss.errors import BadInput
from isoloss.measurements.fixed_sentences import (
    DRAWN_WITH_LABELS,
    FixedSentences,
    SampledBatches,
    given,
    labelled,
)
from isoloss.measurements.models_on_text import load_predicting, prediction_of
from isoloss.measurements.on_sentences import whole_number
from isoloss.measurements.prediction import MaskedTokens, NextToken
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order, rounding_of_steps
from isoloss.measurements.replaced_weights import replacement_of
from isoloss.models.tokenizer import longest_sentence, number_of_tokens
from isoloss.objectives.batch import Batch, NonFiniteScores, split_sentences
from isoloss.objectives.pretrained import apart_throughout
from isoloss.progress import Progress
from isoloss.results.record import Setting

PER_RATE = "1 / learning rate"


@dataclass(frozen=True)
class BatchSharpnessQuantity:
    """E_B[gᵀHg / |g|²] over batches of `batch` of the `sentences` sentences; see `batch_sharpness`."""

    revision: ClassVar[int] = 1
    smaller_is: ClassVar[str] = "flatter"
    error_over: ClassVar[str] = "batches of sentences"
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_in_order("batch_sharpness")

    sentences: int
    seed: int
    batch: int = BATCH

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """`batch_sharpness`; `n` counts batches."""
        joined = FixedSentences((drawn.joined,))
        found = batch_sharpness(model, **given(joined, subject, progress), batch=self.batch)
        more = {"batch": self.batch, "sentences": found.sentences, **found.parameters.settings}
        name, values = "batch_sharpness", found.by_batch
        return subject.measurement(name, found.estimate, TRACE_UNIT, self.seed, more, values=values)


def batch_sharpness_on_sentences(
    sentences: int, seed: int, value: str | None = None
) -> BatchSharpnessQuantity:
    """See the folder; the value is the number of sentences in a batch, for at least four batches."""
    usual = min(BATCH, max(1, sentences // 4))
    return BatchSharpnessQuantity(sentences, seed, whole_number(value, usual, "sentences in a batch"))


@dataclass(frozen=True)
class DirectionalSharpnessQuantity:
    """vᵀHv / |v|² on `sentences` sentences, v the difference to the model `towards`, or the gradient.

    See `directional_sharpness`.
    """

    revision: ClassVar[int] = 1
    smaller_is: ClassVar[str] = "flatter"
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_in_order("directional_sharpness")

    sentences: int
    seed: int
    towards: str | None = None

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """`directional_sharpness` and its groups' parts, with the length of v in the settings."""
        direction = None
        if self.towards is not None:
            read = subject.source.prediction if isinstance(subject.source, SampledBatches) else None
            objective = read.name if isinstance(read, MaskedTokens | NextToken) else None
            prediction = prediction_of(self.towards, objective)
            first = next(iter(trainable_parameters(model).values()))
            other = load_predicting(self.towards, prediction, first.dtype)
            direction = differences(model, replacement_of(model, subject.checkpoint, other, self.towards))
        found = directional_sharpness(model, **given(drawn, subject, progress), direction=direction)
        settings: dict[str, Setting] = {
            "towards": self.towards or "the gradient",
            "length": found.norm,
            "sentences": found.sentences,
            **found.parameters.settings,
        }
        name, values, groups = "directional_sharpness", found.by_block, found.groups
        return subject.measurement(
            name, found.estimate, TRACE_UNIT, self.seed, settings, values=values, groups=groups
        )


def directional_sharpness_on_sentences(
    sentences: int, seed: int, value: str | None = None
) -> DirectionalSharpnessQuantity:
    """See the folder; the value is the other model's folder, or its name on a hub."""
    return DirectionalSharpnessQuantity(sentences, seed, value)


@dataclass(frozen=True)
class CriticalSharpnessQuantity:
    """The critical sharpness along the gradient on `sentences` sentences; see `critical_sharpness`."""

    revision: ClassVar[int] = 2
    smaller_is: ClassVar[str] = "flatter"
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_in_order("critical_sharpness")

    sentences: int
    seed: int

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """`critical_sharpness`, with the critical learning rate in its settings."""
        found = critical_sharpness(model, **given(drawn, subject, progress))
        more = _settings(found, model)
        return subject.measurement("critical_sharpness", found.estimate, PER_RATE, self.seed, more)


critical_sharpness_on_sentences = CriticalSharpnessQuantity


def _settings(found: CriticalSharpness, model: nn.Module) -> dict[str, Setting]:
    return {
        "learning_rate": found.learning_rate,
        "passes": found.passes,
        **found.parameters.settings,
        **rounding_of_steps(model),
    }


@dataclass(frozen=True)
class RelativeCriticalSharpnessQuantity:
    """The critical sharpness along the gradient on `other`, a text, or without one on half of the sentences.

    See `critical_sharpness`. The loss is that of `sentences` sentences, or of their second half; as many of
    the other text are learnt from.
    """

    revision: ClassVar[int] = 2
    smaller_is: ClassVar[str] = "flatter"
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_in_order("relative_critical_sharpness")

    sentences: int
    seed: int
    other: str | None = None

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """`relative_critical_sharpness`, with the critical learning rate in its settings."""
        if self.other is None:
            learnt, measured = split_sentences(drawn.joined, 2)
            along: Sequence[Batch] = labelled([learnt], subject.source, subject.objective)
            drawn = FixedSentences((measured,))
            found = critical_sharpness(model, **given(drawn, subject, progress), along=along)
        else:
            other = self._read_other(model, subject)
            along = other.first(self.sentences)
            objective, _ = apart_throughout(model, subject.objective, [*drawn.batches, *along])
            subject = replace(subject, objective=objective)
            try:
                found = critical_sharpness(model, **given(drawn, subject, progress), along=along)
            except NonFiniteScores as error:
                raise self._in_its_text(error, other.reading.lines[: sum(map(len, along))]) from error
        more: dict[str, Setting] = {
            "along": self.other or "half of the sentences",
            "sentences_along": sum(map(len, along)),
            **_settings(found, model),
        }
        name = "relative_critical_sharpness"
        return subject.measurement(name, found.estimate, PER_RATE, self.seed, more)

    def _in_its_text(self, error: NonFiniteScores, of_other: Sequence[int]) -> BadInput:
        """The same, of one of the lines of the other text, or of a sentence numbered within the subject's."""
        if (further := error.sentence - len(of_other)) > 0:
            return NonFiniteScores(further, f"sentence {further}")
        line = of_other[error.sentence - 1]
        return BadInput(str(NonFiniteScores(error.sentence, f"the sentence of line {line} of {self.other}")))

    def _read_other(self, model: nn.Module, subject: Subject[Any]) -> SampledBatches:
        """The other text, whose sentences are read and masked as those of the subject's text are."""
        source, path = subject.source, Path(str(self.other))
        if not isinstance(source, SampledBatches):
            raise BadInput(f"{path} is a text, and the model is not measured on one; leave it out")
        if isinstance(source.corpus, TextCorpus):
            known = source.corpus
            text = replace(read_text_corpus(path), tokenizer=known.tokenizer, longest=known.longest)
            return replace(source, corpus=text)
        if not isinstance(source.corpus, TokenCorpus):
            raise BadInput(
                f"{path} is not read for a model with the head of a task; leave ={path} out, and half of the "
                "table is learnt from"
            )
        numbers = read_token_corpus(path, number_of_tokens(model), longest_sentence(model))
        return replace(source, corpus=numbers)


def relative_critical_sharpness_on_sentences(
    sentences: int, seed: int, value: str | None = None
) -> RelativeCriticalSharpnessQuantity:
    """See the folder; the value is a file of the other data, in the form of the text that is measured on."""
    return RelativeCriticalSharpnessQuantity(sentences, seed, value)
