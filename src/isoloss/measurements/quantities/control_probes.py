"""Controls for a probe besides chance and ceiling: words, an untrained model, the lookup table.

All are probed on the same sentences with the same settings as the models. What can be read off the words does
not show that a model has learnt anything; what an untrained model adds is due to the architecture's mixing of
words. The lookup table returns the language's distribution itself, and has the lowest possible loss.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import ClassVar

from transformers import PreTrainedModel

from isoloss.languages.language import Language
from isoloss.languages.task import TaskSplits
from isoloss.measurements.exact_loss import ExactLossQuantity, exact_loss
from isoloss.measurements.linear_probe import linear_probe
from isoloss.measurements.quantities.adapted_probe import AdaptedProbeQuantity
from isoloss.measurements.quantities.probe import ProbeQuantity, accuracy_columns, accuracy_names
from isoloss.measurements.quantity import Columns, Measurement, Subject
from isoloss.measurements.room_and_price import WORDS_PROBE
from isoloss.measurements.sentence_features import word_features
from isoloss.models.lookup_table import LookupTable
from isoloss.models.transformers import Architecture, initialised
from isoloss.objectives.batch import PretrainingObjective
from isoloss.objectives.masked import MaskedObjective
from isoloss.progress import Progress
from isoloss.results.record import Record
from isoloss.seeds import derived_seed

WORDS, UNTRAINED, LOOKUP_TABLE = "words alone", "untrained model", "lookup table"
UNTRAINED_SEED = 0


@dataclass(frozen=True)
class WordsReference:
    """A linear probe on one-hot words, with the probe's seeds and other settings suited to such features."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)

    of: ProbeQuantity

    def measure(self, source: Language, progress: Progress) -> list[Record]:
        """See `ReferenceQuantity`."""
        drawn = self.of.draw(source, MaskedObjective(), progress)
        train, test = drawn.train, drawn.test
        words = len(source.vocabulary)
        width = max(train.sentences.ids.shape[1], test.sentences.ids.shape[1])
        accuracy = linear_probe(
            word_features(train.sentences, words, width),
            train.labels,
            word_features(test.sentences, words, width),
            test.labels,
            train.posterior.shape[1],
            replace(WORDS_PROBE, seeds=self.of.probe.seeds),
            progress,
        )
        return accuracy.records(WORDS, {"task": self.of.task})

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `ReferenceQuantity`."""
        return accuracy_names("words_accuracy")

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `ReferenceQuantity`: `words_accuracy` and its errors, named as the probe's."""
        return accuracy_columns("words_accuracy", *records)


@dataclass(frozen=True)
class UntrainedReference:
    """The probe on an untrained model of an architecture, initialised with `seed`."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)

    of: ProbeQuantity
    architecture: Architecture
    seed: int = UNTRAINED_SEED

    def measure(self, source: Language, progress: Progress) -> list[Record]:
        """See `ReferenceQuantity`."""
        model = self.architecture.build(len(source.vocabulary), source.maximum_length, self.seed)
        drawn = self.of.draw(source, MaskedObjective(), progress)
        accuracy = self.of.accuracy(model, drawn, progress)
        return accuracy.records(UNTRAINED, {"task": self.of.task})

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `ReferenceQuantity`."""
        return accuracy_names("untrained_accuracy")

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `ReferenceQuantity`: `untrained_accuracy` and its errors, named as the probe's."""
        return accuracy_columns("untrained_accuracy", *records)


@dataclass(frozen=True)
class UntrainedProbeQuantity:
    """The probe `of` on a run's own model before its first step, and its number of parameters.

    All checkpoints of a run give the same result: the model is rebuilt from the checkpoint's shape and the
    run's seed. This shows, for each run, what a larger model gains from its size alone.
    """

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = TaskSplits

    of: ProbeQuantity | AdaptedProbeQuantity
    column: str = field(compare=False)

    @property
    def feature_sentences(self) -> int:
        """See `ReadsFeatures`."""
        return self.of.feature_sentences

    def draw(self, source: Language, objective: PretrainingObjective, progress: Progress) -> TaskSplits:
        """See `Quantity`."""
        return self.of.draw(source, objective, progress)

    def measure(
        self, model: PreTrainedModel, drawn: TaskSplits, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        """The probe's records, without per-sentence values, which serve to compare trained models."""
        config, seed = deepcopy(model.config), derived_seed(subject.seed, "initialisation")
        fresh = initialised(type(model), config, config._attn_implementation, seed)
        parameters = sum(weight.numel() for weight in fresh.parameters())
        told = replace(subject, settings={**subject.settings, "parameters": parameters})
        records = self.of.measure(fresh, drawn, told, progress).records
        return Measurement([replace(record, quantity=f"untrained_{record.quantity}") for record in records])

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `Quantity`."""
        return (*accuracy_names(self.column), "parameters")

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: the probe's columns under another name, and `parameters`."""
        size: Columns = {"parameters": records[0].settings["parameters"]}
        return accuracy_columns(self.column, *records) | size


@dataclass(frozen=True)
class LookupTableReference:
    """The lookup table's exact loss, and the probe's accuracy on its distributions instead of vectors.

    Both are measured on the same sentences as the models. The table has no parameters, and hence no trace.
    """

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)

    loss: ExactLossQuantity
    probes: tuple[ProbeQuantity, ...]

    def measure(self, source: Language, progress: Progress) -> list[Record]:
        """See `ReferenceQuantity`."""
        table, objective = LookupTable(source), self.loss.objective
        evaluation = self.loss.evaluation(self.loss.draw(source, MaskedObjective(), progress))
        records = exact_loss(table, objective, evaluation, progress=progress).records(LOOKUP_TABLE, {})
        for probe in self.probes:
            drawn = probe.draw(source, MaskedObjective(), progress)
            accuracy = probe.accuracy(table, drawn, progress)
            records += accuracy.records(LOOKUP_TABLE, {"task": probe.task})
        return records

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `ReferenceQuantity`."""
        return (*self.loss.column_names, *(name for probe in self.probes for name in probe.column_names))

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `ReferenceQuantity`: the columns of the loss and the probes."""
        columns = self.loss.columns(records)
        for probe in self.probes:
            columns |= probe.columns([r for r in records if r.settings.get("task") == probe.task])
        return columns
