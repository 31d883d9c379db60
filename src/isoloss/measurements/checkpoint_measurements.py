"""What `isoloss compare` measures of one checkpoint: a quantity of a text, a probe, fine-tuning."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from isoloss.corpora.labelled_texts import TextTask
from isoloss.curvature.stopping import Stopping
from isoloss.files import file_digest
from isoloss.measurements.compared_checkpoints import (
    FINE_TUNING,
    LOSS,
    PROBE,
    TRACE,
    Checkpoint,
)
from isoloss.measurements.fine_tuning import fine_tune_text_seed, fine_tuning_inputs
from isoloss.measurements.fine_tuning_run import FineTuningSettings
from isoloss.measurements.labelled_inputs import text_inputs
from isoloss.measurements.linear_probe import Accuracy, ProbeSettings
from isoloss.measurements.measured_models import FIXED_SENTENCES, INTERRUPTED, measure, progress_of
from isoloss.measurements.on_sentences import name_and_value, quantity_named, short_name
from isoloss.measurements.quantity import Measurement
from isoloss.measurements.sampled_batches import (
    SampledBatches,
)
from isoloss.measurements.task_texts import task_features
from isoloss.models.tokenizer import load_tokenizer
from isoloss.progress import Progress
from isoloss.results.estimate import mean_over_sentences
from isoloss.results.record import Setting

WEIGHTS = (".safetensors", ".bin")
SHORTER = {"pretraining_loss": LOSS, "fisher_trace": TRACE}
"""What the two usual quantities of a text are called in a comparison; others by their own names."""


@dataclass(frozen=True)
class CheckpointMeasurement:
    """A measurement to be made of a checkpoint; `name` is shown while it runs.

    `key` holds, as JSON, everything its numbers depend on besides the model and its tokenizer. Cached
    measurements of an older `revision` are repeated.
    """

    name: str
    key: Mapping[str, Any]
    measure: Callable[[PreTrainedModel, Checkpoint, Progress], Measurement]
    revision: int = 1


Stage = Sequence[tuple[Checkpoint, CheckpointMeasurement]]
"""Measurements after which there is something new to compare."""


def quantity_of_text(
    quantity: str, batches: SampledBatches, text: str, stopping: Stopping
) -> CheckpointMeasurement:
    """A quantity, named as in `quantity_named`, on batches of the text whose digest is `text`."""
    name = short_name(quantity)
    called = SHORTER.get(name, name)
    key = {
        "measures": called,
        "text": text,
        "longest": getattr(batches.corpus, "longest", None),
        "predicting": repr(batches.predicting),
        "seed": batches.seed,
        "stopping": asdict(stopping),
    }
    file, value = name_and_value(quantity)
    if file.endswith(".py"):
        key |= {"file": file_digest(Path(file))}
    if value is not None:
        key |= {"value": _content_of(Path(value))}
    revision = quantity_named(quantity, stopping.sentences or FIXED_SENTENCES, batches.seed).revision
    return CheckpointMeasurement(
        called, key, partial(_quantity_on_text, quantity, batches, stopping), revision
    )


def _content_of(named: Path) -> list[str]:
    """Digests of the file, or of the files of weights in the folder, that a quantity names, if it does."""
    weights = [each for each in named.iterdir() if each.suffix in WEIGHTS] if named.is_dir() else [named]
    return [file_digest(each) for each in sorted(weights) if each.is_file()]


def _quantity_on_text(
    quantity: str,
    batches: SampledBatches,
    stopping: Stopping,
    model: PreTrainedModel,
    checkpoint: Checkpoint,
    progress: Progress,
) -> Measurement:
    """See `measure`; records say why it stopped, and how much of the text was truncated or left out.

    Raises KeyboardInterrupt if interrupted before the end.
    """
    name, settings = checkpoint.name, {"estimand": batches.predicting.describe()}
    report = progress_of(name, progress)
    found = measure(quantity, {name: model}, batches, stopping, settings, report)
    if found.stopped == INTERRUPTED:
        raise KeyboardInterrupt
    more: dict[str, Setting] = {
        "stopped": found.stopped,
        "cut": len(found.reading.cut),
        "too_short": len(found.reading.short),
    }
    measured = found.measurements[name]
    records = [replace(record, settings={**record.settings, **more}) for record in measured.records]
    return Measurement(records, measured.values)


def probe_of_task(
    task: TextTask, digest: str, longest: int, settings: ProbeSettings
) -> CheckpointMeasurement:
    """The accuracy of linear heads on the task of that digest, with texts truncated to `longest` tokens."""
    key = {"measures": PROBE, "task": digest, "longest": longest, "settings": asdict(settings)}
    return CheckpointMeasurement(PROBE, key, partial(_probed, task, longest, settings))


def _probed(
    task: TextTask,
    longest: int,
    settings: ProbeSettings,
    model: PreTrainedModel,
    checkpoint: Checkpoint,
    progress: Progress,
) -> Measurement:
    """See `accuracy_measurement`."""
    tokenizer, report = load_tokenizer(checkpoint.name), progress_of(checkpoint.name, progress)
    accuracy = task_features(model, tokenizer, task, longest, report).probed(settings, report)
    cut = text_inputs(model, tokenizer, task.test, longest).cut
    return accuracy_measurement(accuracy, checkpoint.name, {"task": task.name, "cut": cut})


def fine_tuning_of_task(
    task: TextTask, digest: str, longest: int, settings: FineTuningSettings, seed: int
) -> CheckpointMeasurement:
    """The accuracy of the model fine-tuned on the task with one seed; the key names no other seed."""
    said = asdict(settings)
    del said["seeds"]
    key = {"measures": FINE_TUNING, "task": digest, "longest": longest, "settings": said, "seed": seed}
    run = partial(_fine_tuned, task, longest, settings, seed)
    return CheckpointMeasurement(f"{FINE_TUNING} with seed {seed}", key, run)


def _fine_tuned(
    task: TextTask,
    longest: int,
    settings: FineTuningSettings,
    seed: int,
    model: PreTrainedModel,
    checkpoint: Checkpoint,
    progress: Progress,
) -> Measurement:
    """The best epoch's accuracy, and which test texts are classified correctly."""
    name = f"{FINE_TUNING} with seed {seed} of {checkpoint.name}"

    def report(task: str, completed: float, total: float, message: str = "") -> None:  # noqa: ARG001
        progress(name, completed, total, message)

    tokenizer = load_tokenizer(checkpoint.name)
    inputs = fine_tuning_inputs(model, tokenizer, task, settings, longest)
    found = fine_tune_text_seed(model, tokenizer, task.classes, inputs, settings, seed, report)
    right = found.best.double()
    said: dict[str, Setting] = {
        "task": task.name,
        "best_epoch": found.best_epoch,
        "epochs": len(found.validation),
    }
    quantity = "fine_tuning_best_accuracy_of_seed"
    record = mean_over_sentences(right).record(quantity, "fraction", seed, checkpoint.name, said)
    return Measurement([record], {"right": right})


def accuracy_measurement(accuracy: Accuracy, checkpoint: str, settings: Mapping[str, Setting]) -> Measurement:
    """An accuracy's records, and what `measured_accuracy` needs to read it back."""
    records = accuracy.records(checkpoint, dict(settings))
    return Measurement(records, {"correct": accuracy.correct, "by_seed": accuracy.by_seed})
