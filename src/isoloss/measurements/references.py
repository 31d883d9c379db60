"""What an accuracy is compared with: chance, majority, ceiling, words, untrained models, the lookup table.

All are measured on the same examples with the same settings as the models. What can be read off the words
shows nothing that a model has learnt; what an untrained model adds is due to the architecture's mixing of
words. The lookup table returns the language's distribution itself, and has the lowest possible loss.
"""

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from transformers import PreTrainedModel

from isoloss.corpora.labelled_texts import TaskSizes, TaskSource, TextTask
from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.languages.language import Language
from isoloss.languages.task import TaskSplits
from isoloss.measurements.accuracy import AccuracyQuantity, LinearProbe, accuracy_columns
from isoloss.measurements.exact_loss import ExactLossQuantity, KnownSentences, loss_columns
from isoloss.measurements.linear_probe import LabelledFeatures, reference_records
from isoloss.measurements.quantity import Column, Measurement, Subject, columns_in_order, columns_of
from isoloss.measurements.room_and_price import WORDS_PROBE
from isoloss.measurements.student_task_texts import KeptTexts, StudentTaskTexts, bags_of_tokens
from isoloss.measurements.task_texts import DrawnTask, TaskTexts, majority_record, scaled
from isoloss.models.lookup_table import LookupTable, OneHotWords
from isoloss.models.transformers import Architecture, initialised
from isoloss.objectives.batch import PretrainingObjective
from isoloss.objectives.evaluation import device_of
from isoloss.progress import Progress
from isoloss.results.record import Record, Setting
from isoloss.seeds import derived_seed

WORDS, UNTRAINED, LOOKUP_TABLE = "words alone", "untrained model", "lookup table"
PARAMETERS = (Column("parameters", what="parameters"),)
CHANCE_AND_CEILING = ("chance_accuracy", "posterior_accuracy", "latent_agreement")
CONTROLS = ("majority", "bag", "coverage", "coverage_resegmented", "longer")


@dataclass(frozen=True)
class Words:
    """No model: one-hot words, read by a head whose other settings suit such features."""


@dataclass(frozen=True)
class Untrained:
    """An untrained model of an architecture, initialised with `seed`."""

    architecture: Architecture
    seed: int = 0


@dataclass(frozen=True)
class BeforeTraining:
    """The run's model before its first step, which shows what a larger one gains from its size alone."""


Control = Words | Untrained | BeforeTraining


@dataclass(frozen=True)
class ControlQuantity:
    """The accuracy `of`, reached by a `control` instead of a trained model."""

    revision: ClassVar[int] = 1
    column_names, columns = columns_of(
        lambda it: (*accuracy_columns(it.column), *(PARAMETERS if it.control == BeforeTraining() else ()))
    )

    of: AccuracyQuantity
    control: Control
    column: str = field(compare=False)

    @property
    def sources(self) -> tuple[type, ...]:
        return self.of.sources

    @property
    def drawn_as(self) -> type:
        return self.of.drawn_as

    @property
    def stored_as(self) -> dict[str, Any]:
        """The names and revisions under which each control is stored, which are older than this class."""
        match self.control:
            case Words():
                return {"is": "WordsReference", "revision": 1, "of": self.of}
            case Untrained(architecture, seed):
                named = {"is": "UntrainedReference", "revision": 1, "of": self.of}
                return {**named, "architecture": architecture, "seed": seed}
        if isinstance(self.of.examples, StudentTaskTexts):
            # The first revision drew weights from the seed itself; a run draws its own from a derived one.
            return {"is": "UntrainedTextProbe", "revision": 2, "of": self.of}
        return {"is": "UntrainedProbeQuantity", "revision": 1, "of": self.of}

    def draw(self, source: Any, objective: PretrainingObjective, progress: Progress) -> Any:
        return self.of.draw(source, objective, progress)

    def measure(self, model: Any, drawn: Any, subject: Subject[Any], progress: Progress) -> Measurement:
        """The accuracy's records; `model` is used for its shape alone, if at all."""
        source = subject.source
        match self.control:
            case Words():
                width = max(part.sentences.ids.shape[1] for part in (drawn.train, drawn.test))
                head = LinearProbe(replace(WORDS_PROBE, seeds=self.of.head.settings.seeds))
                words, named = OneHotWords(len(source.vocabulary), width), replace(subject, checkpoint=WORDS)
                return replace(self.of, head=head).measure(words, drawn, named, progress)
            case Untrained(architecture, seed):
                built = architecture.build(len(source.vocabulary), source.maximum_length, seed)
                built = built.to(device_of(model))
                return self.of.measure(built, drawn, replace(subject, checkpoint=UNTRAINED), progress)
            case BeforeTraining():
                return self._before_training(model, drawn, subject, progress)

    def _before_training(
        self, model: PreTrainedModel, drawn: Any, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """With the number of parameters, and no values per example."""
        config, seed = deepcopy(model.config), derived_seed(subject.seed, "initialisation")
        fresh = initialised(type(model), config, config._attn_implementation, seed).to(model.device)
        parameters = sum(weight.numel() for weight in fresh.parameters())
        counted = replace(subject, settings={**subject.settings, "parameters": parameters})
        records = self.of.measure(fresh, drawn, counted, progress).records
        return Measurement([replace(record, quantity=f"untrained_{record.quantity}") for record in records])


@dataclass(frozen=True)
class TaskReference:
    """Chance and ceiling for an accuracy of a language's task, on its test sentences."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = TaskSplits
    column_names, columns = columns_of(lambda _: (Column(name, name) for name in CHANCE_AND_CEILING))

    of: AccuracyQuantity

    def draw(self, source: Language, objective: PretrainingObjective, progress: Progress) -> TaskSplits:
        found: TaskSplits = self.of.draw(source, objective, progress)
        return found

    def measure(
        self, model: Any, drawn: TaskSplits, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        task = self.of.examples.task_of(drawn)
        return Measurement(reference_records(drawn.test, {**subject.settings, "task": task}))


@dataclass(frozen=True)
class TableExamples:
    """What a lookup table's loss and its accuracies are measured on."""

    loss: KnownSentences
    probes: tuple[TaskSplits, ...]


@dataclass(frozen=True)
class LookupTableReference:
    """The lookup table's exact loss, and the probes' accuracy on its distributions instead of vectors."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = TableExamples
    column_names, columns = columns_of(lambda it: it.declared)

    loss: ExactLossQuantity
    probes: tuple[AccuracyQuantity, ...]

    @property
    def declared(self) -> tuple[Column, ...]:
        """The columns of the loss, and those of each probe's two records, which are the last."""
        places = range(-2 * len(self.probes), 0, 2)
        probes = zip(self.probes, places, strict=True)
        of_probes = (column for probe, first in probes for column in accuracy_columns(probe.column, first))
        return (*loss_columns(self.loss.objective), *of_probes)

    def draw(self, source: Language, objective: PretrainingObjective, progress: Progress) -> TableExamples:
        drawn = self.loss.draw(source, objective, progress)
        return TableExamples(drawn, tuple(each.draw(source, objective, progress) for each in self.probes))

    def measure(
        self, model: Any, drawn: TableExamples, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        table: Any = LookupTable(subject.source)
        subject = replace(subject, checkpoint=LOOKUP_TABLE)
        records = list(self.loss.measure(table, drawn.loss, subject, progress).records)
        for probe, examples in zip(self.probes, drawn.probes, strict=True):
            records += probe.measure(table, examples, subject, progress).records
        return Measurement(records)


@dataclass(frozen=True)
class MajorityReference:
    """The accuracy of always predicting the most common training class, on the same test texts."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (PackedCorpus,)
    drawn_as: ClassVar[type] = DrawnTask
    column_names, columns = columns_in_order("majority_accuracy", n="test_texts", settings=["left_out"])

    task: TaskSource
    sizes: TaskSizes

    def draw(self, source: PackedCorpus, objective: PretrainingObjective, progress: Progress) -> DrawnTask:
        return TaskTexts(self.task, self.sizes).draw(source, objective, progress)

    def measure(
        self, model: object, drawn: DrawnTask, subject: Subject[PackedCorpus], progress: Progress
    ) -> Measurement:
        """See `majority_record`; the setting `left_out` counts as in `DrawnTask`."""
        settings = {**subject.settings, "task": drawn.task.name, "left_out": drawn.left_out}
        return Measurement([majority_record(drawn.task, settings)])


@dataclass(frozen=True)
class ControlTexts:
    """A task, its texts as the models read them, and how much of the test a student knows, also cut anew."""

    task: TextTask
    read: KeptTexts
    coverage: float
    resegmented_coverage: float


@dataclass(frozen=True)
class TextControls:
    """The majority class, a bag of the same tokens, and how much of the texts the student knows."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = ControlTexts
    column_names, columns = columns_of(
        lambda it: (Column(f"{it.prefix}_{name}", place) for place, name in enumerate(CONTROLS))
    )

    of: AccuracyQuantity
    prefix: str = field(compare=False)

    def draw(self, source: Language, objective: PretrainingObjective, progress: Progress) -> ControlTexts:
        examples = self.of.examples
        assert isinstance(examples, StudentTaskTexts)
        task, student = examples.read_by(source, progress)
        shares = (student.coverage(task.test, policy) for policy in (examples.policy, "resegment"))
        return ControlTexts(task, examples.draw(source, objective, progress), *shares)

    def measure(
        self, model: object, drawn: ControlTexts, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        train, test = drawn.read.train, drawn.read.test
        settings: dict[str, Setting] = {**subject.settings, "task": drawn.task.name}
        probe: Any = self.of.head.settings
        of_train, of_test = scaled(*bags_of_tokens(train, test))
        classes = len(drawn.task.classes)
        bags = LabelledFeatures(of_train, train.labels, of_test, test.labels, classes)
        bag, _ = bags.probed(probe, progress).records("bag of tokens", settings)
        records = [majority_record(drawn.task, settings), bag]
        shares = {
            "coverage": drawn.coverage,
            "coverage_resegmented": drawn.resegmented_coverage,
            "longer_texts": test.cut / len(test),
        }
        for name, share in shares.items():
            texts = len(drawn.task.test)
            records.append(Record(name, share, "fraction", None, texts, settings=dict(settings)))
        return Measurement(records)
