"""Accuracy on a task: of a head on a checkpoint's features, or of the fine-tuned checkpoint (A.4, A.5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import Tensor
from transformers import PreTrainedModel

from isoloss.measurements.fine_tuning import FineTuningResult
from isoloss.measurements.fine_tuning_run import FineTuningSettings
from isoloss.measurements.linear_probe import Accuracy, LabelledFeatures, ProbeSettings
from isoloss.measurements.quantity import Columns, Measurement, Subject, names_with_errors, value_and_error
from isoloss.measurements.sentence_features import AsTheyAre, FeatureAdaptation
from isoloss.objectives.batch import PretrainingObjective
from isoloss.progress import Progress
from isoloss.results.record import Record


@runtime_checkable
class Examples(Protocol):
    """A frozen dataclass: the labelled examples of a task, and how a model reads them.

    `sources`, `drawn_as` and `draw` are those of a `Quantity`.
    """

    sources: ClassVar[tuple[type, ...]]
    drawn_as: ClassVar[type]

    @property
    def feature_sentences(self) -> int:
        """For how many sentences at once the vectors of all words are held in memory."""
        ...

    def draw(self, source: Any, objective: PretrainingObjective, progress: Progress) -> Any:
        """The examples."""
        ...

    def task_of(self, drawn: Any) -> str:
        """What records call the task."""
        ...

    def features(self, model: Any, drawn: Any, subject: Subject[Any], progress: Progress) -> LabelledFeatures:
        """The features of the training and test examples."""
        ...

    def fine_tuned(
        self,
        model: PreTrainedModel,
        drawn: Any,
        subject: Subject[Any],
        settings: FineTuningSettings,
        progress: Progress,
    ) -> FineTuningResult:
        """The accuracy of the model fine-tuned on the training examples."""
        ...


@dataclass(frozen=True)
class LinearProbe:
    """A linear head on features that do not change; `features` says how the head reads them."""

    settings: ProbeSettings
    features: FeatureAdaptation = AsTheyAre()  # noqa: RUF009  (frozen)

    def measure(
        self,
        examples: Examples,
        model: Any,
        drawn: Any,
        subject: Subject[Any],
        progress: Progress,
    ) -> Measurement:
        """`linear_probe_accuracy` and its deviation over seeds; adapted features are part of the name."""
        found = examples.features(model, drawn, subject, progress)
        train, test = self.features.adapted(found.train, found.test)
        accuracy = replace(found, train=train, test=test).probed(self.settings, progress)
        if not isinstance(self.features, AsTheyAre):
            accuracy = replace(accuracy, quantity=f"linear_probe_{type(self.features).__name__.lower()}")
        return _measurement((accuracy,), subject, examples.task_of(drawn))


@dataclass(frozen=True)
class FineTuning:
    """A linear head trained together with the whole model."""

    settings: FineTuningSettings

    def measure(
        self,
        examples: Examples,
        model: PreTrainedModel,
        drawn: Any,
        subject: Subject[Any],
        progress: Progress,
    ) -> Measurement:
        """The records of `FineTuningResult.best`, then those of `last`."""
        found = examples.fine_tuned(model, drawn, subject, self.settings, progress)
        return _measurement((found.best, found.last), subject, examples.task_of(drawn))


Head = LinearProbe | FineTuning


@dataclass(frozen=True)
class AccuracyQuantity:
    """The test accuracy of `head` on `examples`.

    `column` is the accuracy's name in a table; an experiment on several tasks gives each its own. It does not
    affect the measurement: experiments that use different names for the same accuracy share it.
    """

    revision: ClassVar[int] = 1

    examples: Examples
    head: Head
    column: str = field(default="accuracy", compare=False)

    @property
    def sources(self) -> tuple[type, ...]:
        """Those of its examples."""
        return self.examples.sources

    @property
    def drawn_as(self) -> type:
        """As its examples are."""
        return self.examples.drawn_as

    @property
    def feature_sentences(self) -> int:
        """See `ReadsFeatures`."""
        return self.examples.feature_sentences if isinstance(self.head, LinearProbe) else 0

    @property
    def stored_as(self) -> dict[str, Any]:
        """See `stored_settings`."""
        return stored_settings(self.examples, self.head)

    def draw(self, source: Any, objective: PretrainingObjective, progress: Progress) -> Any:
        """See `Quantity`."""
        return self.examples.draw(source, objective, progress)

    def measure(self, model: Any, drawn: Any, subject: Subject[Any], progress: Progress) -> Measurement:
        """The head's records, and its values per test example."""
        return self.head.measure(self.examples, model, drawn, subject, progress)

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `Quantity`.

        >>> from isoloss.measurements.task_sentences import TaskSentences
        >>> probe = AccuracyQuantity(TaskSentences("root", 9, 3, 5, seed=0), LinearProbe(ProbeSettings()))
        >>> probe.column_names
        ('accuracy', 'accuracy_error', 'accuracy_deviation', 'accuracy_sentences')
        """
        names = names_with_errors(self.column)
        return (*names, f"{self.column}_deviation", f"{self.column}_sentences")

    def columns(self, records: Sequence[Record]) -> Columns:
        """The mean over seeds, its error over test examples, its deviation over seeds, and how many examples.

        For fine-tuning, of the best validation epoch.
        """
        accuracy, deviation = records[:2]
        return {
            **value_and_error(self.column, accuracy),
            f"{self.column}_deviation": deviation.value,
            f"{self.column}_sentences": accuracy.n,
        }


@runtime_checkable
class ReadsFeatures(Protocol):
    """A quantity for which models' features of whole sentences are held in memory."""

    @property
    def feature_sentences(self) -> int:
        """For how many sentences at once."""
        ...


def _measurement(accuracies: Sequence[Accuracy], subject: Subject[Any], task: str) -> Measurement:
    """The accuracies' records, and their values per test example."""
    records: list[Record] = []
    values: dict[str, Tensor] = {}
    for accuracy in accuracies:
        records += accuracy.records(subject.checkpoint, {**subject.settings, "task": task})
        values |= accuracy.sentence_values()
    return Measurement(records, values)


STORED_NAMES: Mapping[tuple[str, str], str] = {
    ("TaskSentences", "LinearProbe"): "ProbeQuantity",
    ("TaskSentences", "FineTuning"): "FineTuningQuantity",
    ("TaskTexts", "LinearProbe"): "TextProbeQuantity",
    ("TaskTexts", "FineTuning"): "TextFineTuningQuantity",
    ("StudentTaskTexts", "LinearProbe"): "GeneratedWordsProbe",
}
"""What plans and stored measurements call an accuracy, by its examples and its head."""


def stored_settings(examples: Any, head: Head) -> dict[str, Any]:
    """The settings under which an accuracy is stored, which are older than its class.

    Every kind of examples and head has a name and the fields of both; adapted features, and examples that
    are made `of` others, are settings around those.
    """
    if isinstance(head, LinearProbe) and not isinstance(head.features, AsTheyAre):
        plain = AccuracyQuantity(examples, LinearProbe(head.settings))
        return {"is": "AdaptedProbeQuantity", "revision": 1, "of": plain, "features": head.features}
    kind = type(examples).__name__
    if kind == "ShiftedSentences":
        plain = AccuracyQuantity(examples.of, head)
        return {"is": "ShiftedProbeQuantity", "revision": 1, "of": plain, "shift": examples.shift}
    setting = "probe" if isinstance(head, LinearProbe) else "settings"
    name = STORED_NAMES.get((kind, type(head).__name__))
    if name is None:
        return {"is": "AccuracyQuantity", "revision": 1, "examples": examples, setting: head.settings}
    own = {each.name: getattr(examples, each.name) for each in fields(examples)}
    return {"is": name, "revision": 1, **own, setting: head.settings}
