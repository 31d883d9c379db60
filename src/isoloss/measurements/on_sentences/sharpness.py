"""The curvature of a checkpoint's loss along an update, and the learning rates at which it rises."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from torch import nn

from isoloss.corpora.token_sentences import TextCorpus, TokenCorpus, read_text_corpus, read_token_corpus
from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.directional_curvature import (
    BATCH,
    batch_sharpness,
    critical_sharpness,
    difference_of,
    directional_sharpness,
)
from isoloss.curvature.fisher_trace import TRACE_UNIT
from isoloss.errors import BadInput
from isoloss.measurements.fixed_sentences import DRAWN_WITH_LABELS, FixedSentences, given
from isoloss.measurements.models_together import load_together
from isoloss.measurements.on_sentences import whole_number
from isoloss.measurements.quantity import AnySource, Measurement, Quantity, Subject, columns_in_order
from isoloss.measurements.sampled_batches import SampledBatches
from isoloss.models.loading import Prediction, longest_sentence, number_of_tokens
from isoloss.objectives.batch import Batch, split_sentences
from isoloss.objectives.pretrained import PretrainedCausal, PretrainedMasked, apart_throughout
from isoloss.progress import Progress
from isoloss.results.record import Setting


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
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[AnySource], progress: Progress
    ) -> Measurement:
        """`batch_sharpness`; `n` counts batches."""
        joined = FixedSentences((drawn.joined,))
        found = batch_sharpness(model, **given(joined, subject, progress), batch=self.batch)
        more = {"batch": self.batch, "sentences": found.sentences, **found.parameters.settings}
        record = subject.record("batch_sharpness", found.estimate, TRACE_UNIT, self.seed, **more)
        return Measurement([record], {"batch_sharpness": found.by_batch})


def batch_sharpness_on(sentences: int, seed: int, value: str | None = None) -> Quantity:
    """By its name; the value is the number of sentences in a batch, for at least four batches."""
    usual = min(BATCH, max(1, sentences // 4))
    return BatchSharpnessQuantity(sentences, seed, whole_number(value, usual, "sentences in a batch"))


@dataclass(frozen=True)
class CriticalSharpnessQuantity:
    """The critical sharpness along the gradient on `sentences` sentences; see `critical_sharpness`."""

    revision: ClassVar[int] = 1
    smaller_is: ClassVar[str] = "flatter"
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_in_order("critical_sharpness")

    sentences: int
    seed: int

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[AnySource], progress: Progress
    ) -> Measurement:
        """`critical_sharpness`, with the critical learning rate in its settings."""
        found = critical_sharpness(model, **given(drawn, subject, progress))
        more = {"learning_rate": found.learning_rate, "passes": found.passes, **found.parameters.settings}
        unit = "1 / learning rate"
        return Measurement([subject.record("critical_sharpness", found.estimate, unit, self.seed, **more)])


@dataclass(frozen=True)
class RelativeCriticalSharpnessQuantity:
    """The critical sharpness along the gradient on `other`, a text, or without one on half of the sentences.

    See `critical_sharpness`. The loss is that of `sentences` sentences, or of their second half; as many of
    the other text are learnt from.
    """

    revision: ClassVar[int] = 1
    smaller_is: ClassVar[str] = "flatter"
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_in_order("relative_critical_sharpness")

    sentences: int
    seed: int
    other: str | None = None

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[AnySource], progress: Progress
    ) -> Measurement:
        """`relative_critical_sharpness`, with the critical learning rate in its settings."""
        if self.other is None:
            learnt, measured = split_sentences(drawn.joined, 2)
            along, drawn = [learnt], FixedSentences((measured,))
        else:
            along = self._of_other(model, subject)
            objective, _ = apart_throughout(model, subject.objective, [*drawn.batches, *along])
            subject = replace(subject, objective=objective)
        found = critical_sharpness(model, **given(drawn, subject, progress), along=along)
        more: dict[str, Setting] = {
            "along": self.other or "half of the sentences",
            "sentences_along": sum(map(len, along)),
            "learning_rate": found.learning_rate,
            "passes": found.passes,
            **found.parameters.settings,
        }
        unit, name = "1 / learning rate", "relative_critical_sharpness"
        return Measurement([subject.record(name, found.estimate, unit, self.seed, **more)])

    def _of_other(self, model: nn.Module, subject: Subject[AnySource]) -> list[Batch]:
        """The other text's sentences, read and masked as those of the subject's text are."""
        source, path = subject.source, Path(str(self.other))
        if not isinstance(source, SampledBatches):
            raise BadInput(f"{path} is a text, and the model is not measured on one; leave it out")
        if isinstance(source.corpus, TextCorpus):
            known = source.corpus
            text = replace(read_text_corpus(path), tokenizer=known.tokenizer, longest=known.longest)
            return replace(source, corpus=text).first(self.sentences)
        if not isinstance(source.corpus, TokenCorpus):
            raise BadInput(
                f"{path} is not read for a model with the head of a task; leave ={path} out, and half of the "
                "table is learnt from"
            )
        numbers = read_token_corpus(path, number_of_tokens(model), longest_sentence(model))
        return replace(source, corpus=numbers).first(self.sentences)


def relative_critical_sharpness_on(sentences: int, seed: int, value: str | None = None) -> Quantity:
    """By its name; the value is a file of the other data, in the form of the text that is measured on."""
    return RelativeCriticalSharpnessQuantity(sentences, seed, value)


_PREDICTIONS: dict[type, Prediction] = {PretrainedMasked: "masked", PretrainedCausal: "causal"}
"""What another language model predicts; one with the head of a task says itself."""


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
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[AnySource], progress: Progress
    ) -> Measurement:
        """`directional_sharpness` and its groups' parts, with the length of v in the settings."""
        direction = None
        if self.towards is not None:
            reads = getattr(subject.objective, "objective", subject.objective)  # of `EqualLengths`, its own
            first = next(iter(trainable_parameters(model).values()))
            loaded, _ = load_together([self.towards], _PREDICTIONS.get(type(reads)), first.dtype, "cpu", None)
            direction = difference_of(model, loaded[self.towards])
        found = directional_sharpness(model, **given(drawn, subject, progress), direction=direction)
        quantity, seed = "directional_sharpness", self.seed
        settings: dict[str, Setting] = {
            "towards": self.towards or "the gradient",
            "length": found.norm,
            "sentences": found.sentences,
            **found.parameters.settings,
        }
        whole = subject.record(quantity, found.estimate, TRACE_UNIT, seed, **settings)
        parts = subject.group_records(quantity, found.groups, TRACE_UNIT, seed)
        return Measurement([whole, *parts], {quantity: found.by_block})


def directional_sharpness_on(sentences: int, seed: int, value: str | None = None) -> Quantity:
    """By its name; the value is the other model's folder, or its name on a hub."""
    return DirectionalSharpnessQuantity(sentences, seed, value)
