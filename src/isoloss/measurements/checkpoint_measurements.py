"""The measurements made of each compared checkpoint, and what each number depends on."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from transformers import PreTrainedModel

from isoloss.corpora.labelled_texts import TextTask
from isoloss.curvature.stopping import Stopping, measure_until
from isoloss.errors import BadInput
from isoloss.measurements.compared_checkpoints import Checkpoint
from isoloss.measurements.compared_flatness import INTERRUPTED, compare_flatness, progress_of
from isoloss.measurements.fine_tuning import fine_tune_text_seed, fine_tuning_inputs
from isoloss.measurements.fine_tuning_run import FineTuningSettings
from isoloss.measurements.linear_probe import Accuracy, ProbeSettings
from isoloss.measurements.quantity import Measurement, MeasuresModels, Subject
from isoloss.measurements.sampled_batches import SampledBatches
from isoloss.measurements.sentence_losses import NonFiniteLossError, RunningSentenceLosses
from isoloss.measurements.text_features import task_features
from isoloss.measurements.text_inputs import text_inputs
from isoloss.models.tokenizer import load_tokenizer
from isoloss.objectives.batch import NonFiniteScores
from isoloss.objectives.pretrained import PretrainedCausal, PretrainedMasked
from isoloss.progress import Progress, silent
from isoloss.results.record import Record, Setting

LOSS, TRACE, PROBE, FINE_TUNING = "loss", "trace", "probe", "fine-tuning"


@dataclass(frozen=True)
class CheckpointMeasurement:
    """A quantity together with its data; `name` is shown while it runs.

    `key` holds, as JSON, everything its numbers depend on besides the model and its tokenizer.
    """

    name: str
    key: Mapping[str, Any]
    quantity: MeasuresModels[None, Any]
    drawn: Any

    @property
    def revision(self) -> int:
        """The quantity's revision; cached measurements of an older one are repeated."""
        return self.quantity.revision

    def measure(
        self, model: PreTrainedModel, checkpoint: Checkpoint, progress: Progress = silent
    ) -> Measurement:
        """Measure the checkpoint's model; it is left as found."""
        objective = PretrainedMasked() if checkpoint.prediction == "masked" else PretrainedCausal()
        subject = Subject(checkpoint.name, objective, {}, None, Path(checkpoint.name))
        return self.quantity.measure(model, self.drawn, subject, progress)


@dataclass(frozen=True)
class TextLoss:
    """The pre-training loss on sentences whose order and masks are determined by a seed."""

    revision: ClassVar[int] = 1

    stopping: Stopping

    def measure(
        self, model: PreTrainedModel, drawn: SampledBatches, subject: Subject[None], progress: Progress
    ) -> Measurement:
        """See `SentenceLosses.records`."""
        running = RunningSentenceLosses(model, subject.objective)
        try:
            stopped = measure_until(
                [running],
                drawn,
                self.stopping,
                task=f"loss of {subject.checkpoint}",
                expected=len(drawn.corpus),
                progress=progress,
            )
        except NonFiniteLossError as error:
            raise BadInput(f"{subject.checkpoint}: {error}") from error
        settings: dict[str, Setting] = {
            "estimand": drawn.predicting.describe(),
            "stopped": stopped,
            "cut": len(drawn.reading.cut),
            "too_short": len(drawn.reading.short),
        }
        losses = running.result
        records = losses.records(drawn.seed, subject.checkpoint, settings)
        return Measurement(records, losses.sentence_values())


@dataclass(frozen=True)
class TextTrace:
    """The trace of the Fisher information on the same sentences, masks and signs for every model."""

    revision: ClassVar[int] = 1

    stopping: Stopping

    def measure(
        self, model: PreTrainedModel, drawn: SampledBatches, subject: Subject[None], progress: Progress
    ) -> Measurement:
        """See `trace_measurement`. Raises KeyboardInterrupt if interrupted before the end."""
        name = subject.checkpoint
        settings = {"estimand": drawn.predicting.describe()}
        try:
            found = compare_flatness(
                "fisher_trace", {name: model}, drawn, self.stopping, settings, progress_of(name, progress)
            )
        except NonFiniteScores as error:
            line = drawn.reading.lines[error.sentence - 1]
            raise NonFiniteScores(error.sentence, f"{name}, the sentence of line {line}") from error
        if found.stopped == INTERRUPTED:
            raise KeyboardInterrupt
        records = [
            replace(record, settings={**record.settings, "stopped": found.stopped})
            for record in found.records
        ]
        return Measurement(records, found.measurements[name].values)


@dataclass(frozen=True)
class TaskProbe:
    """The accuracy of linear heads on a text task, with texts truncated to `longest` tokens."""

    revision: ClassVar[int] = 1

    longest: int
    settings: ProbeSettings

    def measure(
        self, model: PreTrainedModel, drawn: TextTask, subject: Subject[None], progress: Progress
    ) -> Measurement:
        """See `accuracy_measurement`."""
        tokenizer = load_tokenizer(str(subject.folder))
        report = progress_of(subject.checkpoint, progress)
        accuracy = task_features(model, tokenizer, drawn, self.longest, report).probed(self.settings, report)
        cut = text_inputs(model, tokenizer, drawn.test, self.longest).cut
        return accuracy_measurement(accuracy, subject.checkpoint, {"task": drawn.name, "cut": cut})


@dataclass(frozen=True)
class TaskFineTuning:
    """The accuracy of the model fine-tuned on a text task with one seed."""

    revision: ClassVar[int] = 1

    longest: int
    settings: FineTuningSettings
    seed: int

    def measure(
        self, model: PreTrainedModel, drawn: TextTask, subject: Subject[None], progress: Progress
    ) -> Measurement:
        """The best epoch's accuracy, and which test texts are classified correctly."""
        tokenizer = load_tokenizer(str(subject.folder))
        inputs = fine_tuning_inputs(model, tokenizer, drawn, self.settings, self.longest)
        called = f"{fine_tuning_with(self.seed)} of {subject.checkpoint}"
        found = fine_tune_text_seed(
            model, tokenizer, drawn.classes, inputs, self.settings, self.seed, _called(called, progress)
        )
        right = found.best.double()
        record = Record(
            "fine_tuning_best_accuracy_of_seed",
            float(right.mean()),
            "fraction",
            float(right.std() / len(right) ** 0.5),
            len(right),
            self.seed,
            subject.checkpoint,
            {"task": drawn.name, "best_epoch": found.best_epoch, "epochs": len(found.validation)},
        )
        return Measurement([record], {"right": right})


def loss_of_text(batches: SampledBatches, text: str, stopping: Stopping) -> CheckpointMeasurement:
    """`TextLoss` on batches of the text whose digest is `text`."""
    key = {"measures": LOSS, **_sentences_key(batches, text, stopping)}
    return CheckpointMeasurement(LOSS, key, TextLoss(stopping), batches)


def trace_of_text(batches: SampledBatches, text: str, stopping: Stopping) -> CheckpointMeasurement:
    """`TextTrace` on batches of the text whose digest is `text`."""
    key = {"measures": TRACE, **_sentences_key(batches, text, stopping)}
    return CheckpointMeasurement(TRACE, key, TextTrace(stopping), batches)


def probe_of_task(
    task: TextTask, digest: str, longest: int, settings: ProbeSettings
) -> CheckpointMeasurement:
    """`TaskProbe` on the task of that digest."""
    key = {"measures": PROBE, "task": digest, "longest": longest, "settings": asdict(settings)}
    return CheckpointMeasurement(PROBE, key, TaskProbe(longest, settings), task)


def fine_tuning_of_task(
    task: TextTask, digest: str, longest: int, settings: FineTuningSettings, seed: int
) -> CheckpointMeasurement:
    """`TaskFineTuning` on the task of that digest; the key does not depend on the other seeds."""
    told = asdict(settings)
    del told["seeds"]
    key = {"measures": FINE_TUNING, "task": digest, "longest": longest, "settings": told, "seed": seed}
    return CheckpointMeasurement(fine_tuning_with(seed), key, TaskFineTuning(longest, settings, seed), task)


def fine_tuning_with(seed: int) -> str:
    """The name of one seed's fine-tuning measurement.

    >>> fine_tuning_with(3)
    'fine-tuning with seed 3'
    """
    return f"{FINE_TUNING} with seed {seed}"


def accuracy_measurement(accuracy: Accuracy, checkpoint: str, settings: Mapping[str, Setting]) -> Measurement:
    """An accuracy's records, and what `measured_accuracy` needs to read it back."""
    records = accuracy.records(checkpoint, dict(settings))
    return Measurement(records, {"correct": accuracy.correct, "by_seed": accuracy.by_seed})


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
