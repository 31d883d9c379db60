"""Labelled texts of a task on real text, for models of a corpus, and the majority baseline (A.5)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from transformers import PreTrainedModel

from isoloss.corpora.fetched_package import default_cache
from isoloss.corpora.labelled_texts import LabelledTexts, TaskSizes, TaskSource, TextTask
from isoloss.corpora.packed_corpus import PackedCorpus, stand_in_validation
from isoloss.measurements.fine_tuning import FineTuningResult, fine_tune_text
from isoloss.measurements.fine_tuning_run import FineTuningSettings
from isoloss.measurements.linear_probe import LabelledFeatures
from isoloss.measurements.quantity import Columns, Measurement, Subject, names_with_errors, value_and_error
from isoloss.measurements.text_features import majority_record, task_features
from isoloss.models.tokenizer import load_tokenizer
from isoloss.objectives.batch import PretrainingObjective
from isoloss.progress import Progress
from isoloss.results.record import Record
from isoloss.results.tensors import Tensors, data_of, text_tensor


@dataclass(frozen=True)
class DrawnTask:
    """`left_out` counts test texts that occur in the corpus's validation split and are excluded."""

    task: TextTask
    left_out: int

    def tensors(self) -> Tensors:
        """The whole task, as the bytes of its JSON."""
        return {"task": text_tensor(asdict(self))}

    @staticmethod
    def of_tensors(tensors: Tensors) -> "DrawnTask":
        """The inverse of `tensors`."""
        content = data_of(tensors["task"])
        task = content["task"]
        parts = (_texts(task[part]) for part in ("train", "validation", "test"))
        return DrawnTask(TextTask(task["name"], tuple(task["classes"]), *parts), content["left_out"])


def _texts(part: dict[str, Any]) -> LabelledTexts:
    seconds = None if part["seconds"] is None else tuple(part["seconds"])
    return LabelledTexts(tuple(part["texts"]), seconds, tuple(part["labels"]))


@dataclass(frozen=True)
class TaskTexts:
    """A task on real text, and how many of its texts to use; see `Examples`.

    Texts are truncated to the models' maximum input length.
    """

    sources: ClassVar[tuple[type, ...]] = (PackedCorpus,)
    drawn_as: ClassVar[type] = DrawnTask

    task: TaskSource
    sizes: TaskSizes

    @property
    def feature_sentences(self) -> int:
        """None: a text's vectors are averaged as soon as they are computed."""
        return 0

    def draw(
        self,
        source: PackedCorpus,
        objective: PretrainingObjective,  # noqa: ARG002
        progress: Progress,
    ) -> DrawnTask:
        """The task without test texts that occur in the pre-training validation split, cut to `sizes`.

        Raises IsolossError if the task's texts cannot be obtained.
        """
        progress(f"texts of {self.task.name}", 0, 1)
        task = self.task.task(default_cache(), progress)
        standing = stand_in_validation(source, task.test)
        left = [row for row, stands in enumerate(standing) if not stands]
        return DrawnTask(self.sizes.of(replace(task, test=task.test[left])), len(task.test) - len(left))

    def task_of(self, drawn: DrawnTask) -> str:
        """The task's name."""
        return drawn.task.name

    def features(
        self, model: PreTrainedModel, drawn: DrawnTask, subject: Subject[PackedCorpus], progress: Progress
    ) -> LabelledFeatures:
        """See `task_features`."""
        tokenizer, longest = load_tokenizer(str(subject.folder)), subject.source.maximum_length + 1
        return task_features(model, tokenizer, drawn.task, longest, progress)

    def fine_tuned(
        self,
        model: PreTrainedModel,
        drawn: DrawnTask,
        subject: Subject[PackedCorpus],
        settings: FineTuningSettings,
        progress: Progress,
    ) -> FineTuningResult:
        """See `fine_tune_text`."""
        tokenizer, longest = load_tokenizer(str(subject.folder)), subject.source.maximum_length + 1
        return fine_tune_text(model, tokenizer, drawn.task, settings, longest=longest, progress=progress)


@dataclass(frozen=True)
class MajorityReference:
    """The accuracy of always predicting the most common training class, on the same test texts."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (PackedCorpus,)
    drawn_as: ClassVar[type] = DrawnTask

    task: TaskSource
    sizes: TaskSizes

    def draw(self, source: PackedCorpus, objective: PretrainingObjective, progress: Progress) -> DrawnTask:
        """See `Quantity`."""
        return TaskTexts(self.task, self.sizes).draw(source, objective, progress)

    def measure(
        self,
        model: object,  # noqa: ARG002
        drawn: DrawnTask,
        subject: Subject[PackedCorpus],
        progress: Progress,  # noqa: ARG002
    ) -> Measurement:
        """See `majority_record`; the setting `left_out` counts as in `DrawnTask`."""
        settings = {**subject.settings, "task": drawn.task.name, "left_out": drawn.left_out}
        return Measurement([majority_record(drawn.task, settings)])

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `Quantity`."""
        return (*names_with_errors("majority_accuracy"), "test_texts", "left_out")

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`."""
        majority = records[0]
        return {
            **value_and_error("majority_accuracy", majority),
            "test_texts": majority.n,
            "left_out": majority.settings["left_out"],
        }
