"""What a probe's accuracy is held against beside chance and ceiling: words alone, and an untrained model.

Both are probed on the same sentences with the same settings as the models. What the words tell, no model
need have learnt; what an untrained model tells more, the architecture's mixing of words does.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import ClassVar

from transformers import PreTrainedModel

from isoloss.checked_tensors import Tensors
from isoloss.experiments.planned_run import Labels, LanguagePlan
from isoloss.experiments.quantities.adapted_probe import AdaptedProbeQuantity
from isoloss.experiments.quantities.probe import ProbeQuantity
from isoloss.experiments.quantity import Columns, MeasuringSet, Subject
from isoloss.experiments.reference import PlannedReference
from isoloss.languages.language import Language
from isoloss.measurements.linear_probe import linear_probe
from isoloss.measurements.record import Record
from isoloss.measurements.room_and_price import WORDS_PROBE
from isoloss.measurements.sentence_features import word_features
from isoloss.models.transformers import Architecture, initialised
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.pretraining.seeds import derived_seed
from isoloss.progress import Progress

WORDS, UNTRAINED = "words alone", "untrained model"
UNTRAINED_SEED = 0


@dataclass(frozen=True)
class WordsReference:
    """A linear probe on one-hot words; the seeds are the probe's, other settings suit such features."""

    revision: ClassVar[int] = 1

    of: ProbeQuantity

    def measure(self, language: Language, progress: Progress) -> list[Record]:
        """See `ReferenceQuantity`."""
        drawn = self.of.draw(language, MaskedObjective(), progress)
        train, test = drawn.splits.train, drawn.splits.test
        words = len(language.vocabulary)
        width = max(train.sentences.ids.shape[1], test.sentences.ids.shape[1])
        accuracy = linear_probe(
            word_features(train.sentences, words, width),
            train.labels,
            word_features(test.sentences, words, width),
            test.labels,
            drawn.classes,
            replace(WORDS_PROBE, seeds=self.of.probe.seeds),
            progress,
        )
        return accuracy.records(WORDS, {"task": self.of.task})

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `ReferenceQuantity`: `words_accuracy` and its errors, named as the probe's."""
        return replace(self.of, column="words_accuracy").columns(records)


@dataclass(frozen=True)
class UntrainedReference:
    """The probe on a model of an architecture as it is built with `seed`, never trained."""

    revision: ClassVar[int] = 1

    of: ProbeQuantity
    architecture: Architecture
    seed: int = UNTRAINED_SEED

    def measure(self, language: Language, progress: Progress) -> list[Record]:
        """See `ReferenceQuantity`."""
        model = self.architecture.build(len(language.vocabulary), language.maximum_length, self.seed)
        accuracy = self.of.draw(language, MaskedObjective(), progress).accuracy(model, progress)
        return accuracy.records(UNTRAINED, {"task": self.of.task})

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `ReferenceQuantity`: `untrained_accuracy` and its errors, named as the probe's."""
        return replace(self.of, column="untrained_accuracy").columns(records)


@dataclass(frozen=True)
class UntrainedProbeQuantity:
    """The probe `of` a run's own model before its first step, and how many parameters it has.

    Any checkpoint of the run gives the same: it is built anew from the checkpoint's shape and the run's
    seed. What a larger model gains by its size alone is thus known for each run.
    """

    revision: ClassVar[int] = 1

    of: ProbeQuantity | AdaptedProbeQuantity
    column: str = field(compare=False)

    @property
    def feature_sentences(self) -> int:
        """See `ReadsFeatures`."""
        return self.of.feature_sentences

    def draw(
        self, language: Language, objective: PretrainingObjective, progress: Progress
    ) -> "UntrainedProbeSet":
        """See `Quantity`."""
        return UntrainedProbeSet(self.of.draw(language, objective, progress))

    def restore(
        self, tensors: Tensors, language: Language, objective: PretrainingObjective
    ) -> "UntrainedProbeSet":
        """See `Quantity`."""
        return UntrainedProbeSet(self.of.restore(tensors, language, objective))

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: those of the probe under another name, and `parameters`."""
        size: Columns = {"parameters": records[0].settings["parameters"]}
        return replace(self.of, column=self.column).columns(records) | size


@dataclass(frozen=True)
class UntrainedProbeSet:
    """See `MeasuringSet`."""

    of: MeasuringSet

    def tensors(self) -> Tensors:
        """See `MeasuringSet`."""
        return self.of.tensors()

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """See `MeasuringSet`."""
        config, seed = deepcopy(model.config), derived_seed(subject.seed, "initialisation")
        fresh = initialised(type(model), config, config._attn_implementation, seed)
        parameters = sum(weight.numel() for weight in fresh.parameters())
        settings = {**subject.settings, "parameters": parameters}
        return [
            replace(record, quantity=f"untrained_{record.quantity}")
            for record in self.of.measure(
                fresh, replace(subject, settings=settings, sentence_values={}), progress
            )
        ]


def control_references(
    language: LanguagePlan,
    probe: ProbeQuantity,
    architectures: Sequence[tuple[str, Architecture]],
    labels: Labels = (),
) -> tuple[PlannedReference, ...]:
    """A row for the words, and one for each named architecture untrained, for an experiment's references.

    Where an experiment has several panels, `labels` say to which the rows belong.
    """
    suffix = "".join(f" of {value}" for _, value in labels)
    untrained = (
        PlannedReference(f"{UNTRAINED} {name}{suffix}", language, UntrainedReference(probe, each), labels)
        for name, each in architectures
    )
    return (PlannedReference(f"{WORDS}{suffix}", language, WordsReference(probe), labels), *untrained)
