"""What is measured of each checkpoint that is compared, one at a time, and what each number depends on."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from transformers import PreTrainedModel

from isoloss.corpora.labelled_texts import TextTask
from isoloss.curvature.label_distributions import NonFiniteScores
from isoloss.curvature.stopping import Stopping, measure_until
from isoloss.measurements.compared_checkpoints import Checkpoint
from isoloss.measurements.compared_flatness import INTERRUPTED, compare_flatness
from isoloss.measurements.fine_tuning_run import FineTuningSettings
from isoloss.measurements.flatness_records import trace_sentence_values
from isoloss.measurements.kept_measurements import Measurement
from isoloss.measurements.linear_probe import Accuracy, ProbeSettings
from isoloss.measurements.record import Record, Setting
from isoloss.measurements.sampled_batches import SampledBatches
from isoloss.measurements.sentence_losses import RunningSentenceLosses
from isoloss.measurements.text_features import text_probe
from isoloss.measurements.text_fine_tuning import fine_tune_text_seed, fine_tuning_inputs
from isoloss.measurements.text_inputs import text_inputs
from isoloss.progress import Progress, silent

LOSS, TRACE, PROBE, FINE_TUNING = "loss", "trace", "probe", "fine-tuning"


@runtime_checkable
class CheckpointMeasurement(Protocol):
    """One number of a checkpoint, with what is needed to compare it with others'.

    `revision`, 1 at first, is raised when the same key comes to give other numbers, a mended measure's: what
    is kept of an older one is then measured again.
    """

    revision: ClassVar[int]

    @property
    def name(self) -> str:
        """What it is called while it runs."""
        ...

    @property
    def key(self) -> dict[str, Any]:
        """As JSON, all that its numbers depend on besides the model and its tokenizer."""
        ...

    def measure(
        self, checkpoint: Checkpoint, model: PreTrainedModel, tokenizer: Any, progress: Progress = silent
    ) -> Measurement:
        """Measure; the model is left as found."""
        ...


@dataclass(frozen=True)
class LossMeasurement:
    """The pre-training loss on sentences in an order, and with masks, that a seed settles."""

    revision: ClassVar[int] = 1

    batches: SampledBatches
    text: str
    stopping: Stopping

    @property
    def name(self) -> str:
        """See `CheckpointMeasurement`."""
        return LOSS

    @property
    def key(self) -> dict[str, Any]:
        """See `CheckpointMeasurement`."""
        return {"measures": LOSS, **_sentences_key(self.batches, self.text, self.stopping)}

    def measure(
        self,
        checkpoint: Checkpoint,
        model: PreTrainedModel,
        tokenizer: Any,  # noqa: ARG002 - the sentences are encoded already
        progress: Progress = silent,
    ) -> Measurement:
        """See `CheckpointMeasurement`."""
        running = RunningSentenceLosses(model, self.batches.objective)
        stopped = measure_until(
            [running],
            self.batches,
            self.stopping,
            task=f"loss of {checkpoint.name}",
            expected=len(self.batches.corpus),
            progress=progress,
        )
        settings: dict[str, Setting] = {
            "estimand": self.batches.predicting.describe(),
            "stopped": stopped,
            "cut": len(self.batches.cut),
            "too_short": len(self.batches.short),
        }
        losses = running.result
        records = losses.records(self.batches.seed, checkpoint.name, settings)
        return Measurement(tuple(records), losses.sentence_values())


@dataclass(frozen=True)
class TraceMeasurement:
    """The trace of the Fisher information on the same sentences, masks and signs for every model."""

    revision: ClassVar[int] = 1

    batches: SampledBatches
    text: str
    stopping: Stopping

    @property
    def name(self) -> str:
        """See `CheckpointMeasurement`."""
        return TRACE

    @property
    def key(self) -> dict[str, Any]:
        """See `CheckpointMeasurement`."""
        return {"measures": TRACE, **_sentences_key(self.batches, self.text, self.stopping)}

    def measure(
        self,
        checkpoint: Checkpoint,
        model: PreTrainedModel,
        tokenizer: Any,  # noqa: ARG002 - the sentences are encoded already
        progress: Progress = silent,
    ) -> Measurement:
        """See `CheckpointMeasurement`. Raises KeyboardInterrupt where it is interrupted before its end."""
        name = checkpoint.name
        settings = {"estimand": self.batches.predicting.describe()}
        try:
            found = compare_flatness(
                "fisher_trace", {name: model}, self.batches, self.stopping, settings, _of(progress, name)
            )
        except NonFiniteScores as error:
            line = self.batches.lines[error.sentence - 1]
            raise NonFiniteScores(error.sentence, f"{name}, the sentence of line {line}") from error
        if found.stopped == INTERRUPTED:
            raise KeyboardInterrupt
        records = [
            replace(record, settings={**record.settings, "stopped": found.stopped})
            for record in found.records
        ]
        return Measurement(tuple(records), trace_sentence_values(found.fisher_traces[name]))


@dataclass(frozen=True)
class ProbeMeasurement:
    """The accuracy of linear heads on a task of texts."""

    revision: ClassVar[int] = 1

    task: TextTask
    digest: str
    longest: int
    settings: ProbeSettings

    @property
    def name(self) -> str:
        """See `CheckpointMeasurement`."""
        return PROBE

    @property
    def key(self) -> dict[str, Any]:
        """See `CheckpointMeasurement`."""
        return {
            "measures": PROBE,
            "task": self.digest,
            "longest": self.longest,
            "settings": asdict(self.settings),
        }

    def measure(
        self, checkpoint: Checkpoint, model: PreTrainedModel, tokenizer: Any, progress: Progress = silent
    ) -> Measurement:
        """See `CheckpointMeasurement`."""
        accuracy = text_probe(
            model,
            tokenizer,
            self.task,
            longest=self.longest,
            settings=self.settings,
            progress=_of(progress, checkpoint.name),
        )
        cut = text_inputs(model, tokenizer, self.task.test, self.longest).cut
        return accuracy_measurement(accuracy, checkpoint.name, {"task": self.task.name, "cut": cut})


@dataclass(frozen=True)
class FineTuningMeasurement:
    """The accuracy of the model fine-tuned on a task of texts, with one seed."""

    revision: ClassVar[int] = 1

    task: TextTask
    digest: str
    longest: int
    settings: FineTuningSettings
    seed: int

    @property
    def name(self) -> str:
        """See `CheckpointMeasurement`."""
        return f"{FINE_TUNING} with seed {self.seed}"

    @property
    def key(self) -> dict[str, Any]:
        """See `CheckpointMeasurement`; the other seeds make no difference."""
        settings = asdict(self.settings)
        del settings["seeds"]
        return {
            "measures": FINE_TUNING,
            "task": self.digest,
            "longest": self.longest,
            "settings": settings,
            "seed": self.seed,
        }

    def measure(
        self, checkpoint: Checkpoint, model: PreTrainedModel, tokenizer: Any, progress: Progress = silent
    ) -> Measurement:
        """See `CheckpointMeasurement`: the best epoch's accuracy, and which test texts are right."""
        inputs = fine_tuning_inputs(model, tokenizer, self.task, self.settings, self.longest)
        found = fine_tune_text_seed(
            model,
            tokenizer,
            self.task.classes,
            inputs,
            self.settings,
            self.seed,
            _called(f"{self.name} of {checkpoint.name}", progress),
        )
        right = found.best.double()
        record = Record(
            "fine_tuning_best_accuracy_of_seed",
            float(right.mean()),
            "fraction",
            float(right.std() / len(right) ** 0.5),
            len(right),
            self.seed,
            checkpoint.name,
            {"task": self.task.name, "best_epoch": found.best_epoch, "epochs": len(found.validation)},
        )
        return Measurement((record,), {"right": right})


def accuracy_measurement(accuracy: Accuracy, checkpoint: str, settings: Mapping[str, Setting]) -> Measurement:
    """An accuracy's records, and what `measured_accuracy` needs to read it back."""
    records = accuracy.records(checkpoint, dict(settings))
    return Measurement(tuple(records), {"correct": accuracy.correct, "by_seed": accuracy.by_seed})


def measured_accuracy(measurement: Measurement) -> Accuracy:
    """The accuracy that `accuracy_measurement` wrote."""
    quantity = measurement.records[0].quantity.removesuffix("_accuracy")
    return Accuracy(quantity, measurement.values["correct"], measurement.values["by_seed"])


def accuracy_of_seeds(seeds: list[Measurement]) -> Accuracy:
    """The accuracy of fine-tuning, from those of its seeds."""
    return Accuracy.of("fine_tuning_best", torch.stack([seed.values["right"] for seed in seeds]))


def _sentences_key(batches: SampledBatches, text: str, stopping: Stopping) -> dict[str, Any]:
    longest = getattr(batches.corpus, "longest", None)
    return {
        "text": text,
        "longest": longest,
        "predicting": repr(batches.predicting),
        "seed": batches.seed,
        "stopping": asdict(stopping),
    }


def _called(name: str, progress: Progress) -> Progress:
    def report(task: str, completed: float, total: float, message: str = "") -> None:  # noqa: ARG001
        progress(name, completed, total, message)

    return report


def _of(progress: Progress, checkpoint: str) -> Progress:
    def report(task: str, completed: float, total: float, message: str = "") -> None:
        progress(f"{task} of {checkpoint}", completed, total, message)

    return report
