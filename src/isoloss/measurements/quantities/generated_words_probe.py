"""Probes on real text for students of a causal model's language, and their controls."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import ClassVar

from jaxtyping import Int
from torch import Tensor
from transformers import PreTrainedModel

from isoloss.corpora.fetched_package import default_cache
from isoloss.corpora.labelled_texts import TaskSource, TextTask
from isoloss.corpora.task_splits import TaskSizes
from isoloss.languages.language import Language
from isoloss.measurements.generated_words import (
    Policy,
    StudentTexts,
    TokenizerSource,
    bags_of_tokens,
    student_tokenizer,
)
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.measurements.quantities.probe import accuracy_columns, accuracy_names, accuracy_of
from isoloss.measurements.quantity import Columns, Measurement, Subject
from isoloss.measurements.text_features import features_of_inputs, majority_record, probe_of_scaled
from isoloss.measurements.text_inputs import TextInputs
from isoloss.models.transformers import initialised
from isoloss.objectives.batch import PretrainingObjective
from isoloss.progress import Progress
from isoloss.results.record import Record, Setting
from isoloss.seeds import derived_seed

BAG = "bag of tokens"
CONTROLS = ("majority", "bag", "coverage", "coverage_resegmented", "longer")


@dataclass(frozen=True)
class KeptInputs:
    """`TextInputs` as tensors alone."""

    ids: Int[Tensor, "n S"]
    lengths: Int[Tensor, " n"]
    parts: Int[Tensor, "n S"]
    labels: Int[Tensor, " n"]

    @staticmethod
    def of(inputs: TextInputs) -> "KeptInputs":
        """Store the inputs as tensors."""
        return KeptInputs(inputs.ids, inputs.lengths, inputs.parts, inputs.labels)

    @property
    def inputs(self) -> TextInputs:
        """The inputs, restored from the tensors."""
        return TextInputs(self.ids, self.lengths, self.parts, None, self.labels)


@dataclass(frozen=True)
class KeptTexts:
    """A task's training and test texts as a student reads them."""

    train: KeptInputs
    test: KeptInputs


@dataclass(frozen=True)
class GeneratedWordsProbe:
    """A task on real text read with the teacher's tokenizer; see `ProbeQuantity` and `StudentTokenizer`.

    Texts are truncated to the language's longest sentence, since a student has no further positions.
    """

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = KeptTexts

    task: TaskSource
    sizes: TaskSizes
    tokenizer: TokenizerSource
    probe: ProbeSettings
    policy: Policy = "untrained"
    column: str = field(default="accuracy", compare=False)

    def texts(self, language: Language, progress: Progress) -> tuple[TextTask, StudentTexts, StudentTexts]:
        """The task, and its training and test texts as a student reads them."""
        task = self.sizes.of(self.task.task(default_cache(), progress))
        student = student_tokenizer(self.tokenizer.tokenizer(progress), language.vocabulary)
        longest = language.maximum_length
        train, test = (student.read(part, longest, self.policy) for part in (task.train, task.test))
        return task, train, test

    def draw(
        self,
        source: Language,
        objective: PretrainingObjective,  # noqa: ARG002
        progress: Progress,
    ) -> KeptTexts:
        """See `Quantity`. Raises IsolossError if the task's or the teacher's texts cannot be obtained."""
        _, train, test = self.texts(source, progress)
        return KeptTexts(KeptInputs.of(train.inputs), KeptInputs.of(test.inputs))

    def measure(
        self, model: PreTrainedModel, drawn: KeptTexts, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        """On features averaged over a text's tokens, or over each of a pair's; see `accuracy_of`."""
        train, test = drawn.train.inputs, drawn.test.inputs
        pairs = bool((train.parts == 1).any())
        features = [features_of_inputs(model, part, pairs=pairs, progress=progress) for part in (train, test)]
        classes = int(train.labels.max()) + 1
        accuracy = probe_of_scaled(
            features[0], train.labels, features[1], test.labels, classes, self.probe, progress
        )
        return accuracy_of(accuracy, subject, self.task.name)

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `Quantity`."""
        return accuracy_names(self.column)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`, and `accuracy_columns`."""
        return accuracy_columns(self.column, *records)


@dataclass(frozen=True)
class UntrainedTextProbe:
    """The same probe `of` on the run's own model before its first step, initialised with the run's seed."""

    # The first revision drew weights from the seed itself, and a run draws its own from a derived one.
    revision: ClassVar[int] = 2
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = KeptTexts

    of: GeneratedWordsProbe
    column: str = field(compare=False)

    def draw(self, source: Language, objective: PretrainingObjective, progress: Progress) -> KeptTexts:
        """See `Quantity`."""
        return self.of.draw(source, objective, progress)

    def measure(
        self, model: PreTrainedModel, drawn: KeptTexts, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        """See `GeneratedWordsProbe`; only the configuration of `model` is used."""
        config, seed = deepcopy(model.config), derived_seed(subject.seed, "initialisation")
        untrained = initialised(type(model), config, config._attn_implementation, seed)
        return self.of.measure(untrained.to(model.device), drawn, subject, progress)

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `Quantity`."""
        return (self.column, f"{self.column}_deviation")

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: of the accuracy and its deviation over the probe's seeds."""
        accuracy, deviation = records
        return {self.column: accuracy.value, f"{self.column}_deviation": deviation.value}


@dataclass(frozen=True)
class TextControls:
    """Model-free controls of a student's probe: the majority class, and a bag of the same tokens.

    Also reports how much of the texts the student knows; see `StudentTexts`.
    """

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)

    of: GeneratedWordsProbe
    prefix: str = field(compare=False)

    def measure(self, source: Language, progress: Progress) -> list[Record]:
        """See `ReferenceQuantity`."""
        task, train, test = self.of.texts(source, progress)
        settings: dict[str, Setting] = {"task": task.name}
        bags = bags_of_tokens(train.inputs, test.inputs)
        bag = probe_of_scaled(
            bags[0],
            train.inputs.labels,
            bags[1],
            test.inputs.labels,
            len(task.classes),
            self.of.probe,
            progress,
        )
        _, _, anew = replace(self.of, policy="resegment").texts(source, progress)
        shares = {
            "coverage": test.coverage,
            "coverage_resegmented": anew.coverage,
            "longer_texts": test.longer,
        }
        return [
            majority_record(task, settings),
            bag.records(BAG, settings)[0],
            *(
                Record(name, value, "fraction", None, len(task.test), settings=dict(settings))
                for name, value in shares.items()
            ),
        ]

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `ReferenceQuantity`."""
        return tuple(f"{self.prefix}_{name}" for name in CONTROLS)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `ReferenceQuantity`."""
        return dict(zip(self.column_names, (record.value for record in records), strict=True))
