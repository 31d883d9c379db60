"""Labelled real texts as students of a causal model's language read them, and their controls."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from transformers import PreTrainedModel

from isoloss.corpora.fetched_package import default_cache
from isoloss.corpora.labelled_texts import TaskSizes, TaskSource, TextTask
from isoloss.errors import BadInput
from isoloss.languages.language import Language
from isoloss.measurements.accuracy import AccuracyQuantity
from isoloss.measurements.fine_tuning import FineTuningResult
from isoloss.measurements.fine_tuning_run import FineTuningSettings
from isoloss.measurements.generated_words import (
    Policy,
    StudentTexts,
    TokenizerSource,
    bags_of_tokens,
    student_tokenizer,
)
from isoloss.measurements.labelled_inputs import TextInputs
from isoloss.measurements.linear_probe import LabelledFeatures
from isoloss.measurements.quantity import Columns, Measurement, Subject
from isoloss.measurements.task_texts import features_of_inputs, majority_record, scaled
from isoloss.objectives.batch import PretrainingObjective
from isoloss.objectives.evaluation import device_of
from isoloss.progress import Progress
from isoloss.results.record import Record, Setting

BAG = "bag of tokens"
CONTROLS = ("majority", "bag", "coverage", "coverage_resegmented", "longer")


@dataclass(frozen=True)
class KeptTexts:
    """A task's training and test texts as a student reads them."""

    train: TextInputs
    test: TextInputs


@dataclass(frozen=True)
class StudentTaskTexts:
    """A task on real text read with the teacher's tokenizer; see `Examples` and `StudentTokenizer`.

    Texts are truncated to the language's longest sentence, since a student has no further positions.
    """

    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = KeptTexts

    task: TaskSource
    sizes: TaskSizes
    tokenizer: TokenizerSource
    policy: Policy = "untrained"

    def texts(self, language: Language, progress: Progress) -> tuple[TextTask, StudentTexts, StudentTexts]:
        """The task, and its training and test texts as a student reads them."""
        task = self.sizes.of(self.task.task(default_cache(), progress))
        student = student_tokenizer(self.tokenizer.tokenizer(progress), language.vocabulary)
        longest = language.maximum_length
        train, test = (student.read(part, longest, self.policy) for part in (task.train, task.test))
        return task, train, test

    def draw(self, source: Language, objective: PretrainingObjective, progress: Progress) -> KeptTexts:
        """See `Examples`. Raises IsolossError if the task's or the teacher's texts cannot be obtained."""
        _, train, test = self.texts(source, progress)
        return KeptTexts(train.inputs, test.inputs)

    def task_of(self, drawn: KeptTexts) -> str:
        """The task's name."""
        return self.task.name

    def features(
        self, model: PreTrainedModel, drawn: KeptTexts, subject: Subject[Language], progress: Progress
    ) -> LabelledFeatures:
        """Averages over a text's tokens, or over each of a pair's, scaled."""
        train, test = drawn.train, drawn.test
        pairs = bool((train.parts == 1).any())
        of_train, of_test = scaled(
            *(features_of_inputs(model, part, pairs=pairs, progress=progress) for part in (train, test))
        )
        classes = int(train.labels.max()) + 1
        return LabelledFeatures(of_train, train.labels, of_test, test.labels, classes, device_of(model))

    def fine_tuned(
        self,
        model: PreTrainedModel,
        drawn: KeptTexts,
        subject: Subject[Language],
        settings: FineTuningSettings,
        progress: Progress,
    ) -> FineTuningResult:
        """Raises BadInput: students are probed, as in the paper."""
        raise BadInput("students of a causal model's language are not fine-tuned on texts; probe them")


@dataclass(frozen=True)
class ControlTexts:
    """A task, and its texts as read with the policy of the models and cut up anew."""

    task: TextTask
    train: StudentTexts
    test: StudentTexts
    resegmented: StudentTexts


@dataclass(frozen=True)
class TextControls:
    """Model-free controls of a student's probe: the majority class, and a bag of the same tokens.

    Also reports how much of the texts the student knows; see `StudentTexts`.
    """

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = ControlTexts

    of: AccuracyQuantity
    prefix: str = field(compare=False)

    def draw(self, source: Language, objective: PretrainingObjective, progress: Progress) -> ControlTexts:
        examples = self.of.examples
        assert isinstance(examples, StudentTaskTexts)
        *_, anew = replace(examples, policy="resegment").texts(source, progress)
        return ControlTexts(*examples.texts(source, progress), anew)

    def measure(
        self, model: object, drawn: ControlTexts, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        """A record of each of the `CONTROLS`."""
        train, test = drawn.train.inputs, drawn.test.inputs
        settings: dict[str, Setting] = {**subject.settings, "task": drawn.task.name}
        probe: Any = self.of.head.settings
        of_train, of_test = scaled(*bags_of_tokens(train, test))
        classes = len(drawn.task.classes)
        bags = LabelledFeatures(of_train, train.labels, of_test, test.labels, classes)
        bag = bags.probed(probe, progress)
        shares = {
            "coverage": drawn.test.coverage,
            "coverage_resegmented": drawn.resegmented.coverage,
            "longer_texts": drawn.test.longer,
        }
        texts = len(drawn.task.test)
        return Measurement(
            [
                majority_record(drawn.task, settings),
                bag.records(BAG, settings)[0],
                *(
                    Record(name, value, "fraction", None, texts, settings=dict(settings))
                    for name, value in shares.items()
                ),
            ]
        )

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(f"{self.prefix}_{name}" for name in CONTROLS)

    def columns(self, records: Sequence[Record]) -> Columns:
        return dict(zip(self.column_names, (record.value for record in records), strict=True))
