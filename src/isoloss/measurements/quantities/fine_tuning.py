"""How well a fine-tuned pre-trained model predicts a sentence's label (A.5)."""

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from transformers import PreTrainedModel

from isoloss.device import usable_device
from isoloss.errors import BadInput
from isoloss.files import complete_folder, file_digest
from isoloss.languages.language import Language
from isoloss.languages.task import TaskSplits, task_splits
from isoloss.measurements.fine_tuning_run import (
    TASK,
    FineTuned,
    FineTuningSettings,
    fine_tune_seed,
)
from isoloss.measurements.labelled_inputs import SentenceInputs, check_fits, check_splits, splits_digest
from isoloss.measurements.linear_probe import Accuracy
from isoloss.measurements.quantities.probe import accuracy_columns, accuracy_names, named_task
from isoloss.measurements.quantity import Columns, Measurement, Subject
from isoloss.models.classifier import load_classifier
from isoloss.models.hub import quiet
from isoloss.models.tokenizer import copy_tokenizer
from isoloss.objectives.batch import PretrainingObjective
from isoloss.pretraining.run_folder import only_process_in
from isoloss.pretraining.specification import first_difference, settings_as_json
from isoloss.progress import Progress, part_of, silent
from isoloss.results.checkpoint import RAW_FOLDER
from isoloss.results.record import Record, Setting
from isoloss.results.store import read_sealed, write_sealed
from isoloss.seeds import caller_randomness_kept, derived_seed

RESULT_FILE = "fine_tuning.json"


@dataclass(frozen=True)
class FineTuningResult:
    """Test accuracies of the models of the best validation epoch and of the last epoch.

    `best_epochs` counts from 1, one per seed; `checkpoints` are the folders of the best epochs' models, which
    `AutoModelForSequenceClassification.from_pretrained` can load.
    """

    best: Accuracy
    last: Accuracy
    best_epochs: tuple[int, ...]
    checkpoints: tuple[Path, ...]

    def records(self, checkpoint: str, settings: dict[str, Setting]) -> list[Record]:
        """`fine_tuning_best_accuracy`, `.._last_accuracy`, and each one's `.._deviation_over_seeds`."""
        return self.best.records(checkpoint, settings) + self.last.records(checkpoint, settings)


def fine_tune(
    checkpoint: Path,
    splits: TaskSplits,
    classes: tuple[str, ...],
    folder: Path,
    settings: FineTuningSettings | None = None,
    *,
    device: str = "cpu",
    progress: Progress = silent,
) -> FineTuningResult:
    """Fine-tune the checkpoint once per seed, on the vector of [CLS], and evaluate each on the test split.

    Every task of a language classifies sentences, even if the label is that of a single word. After each
    epoch, the model is evaluated on the validation split; the test split is used once per seed, with the best
    epoch's model (the first in case of ties) and the last one's. `folder` receives one checkpoint `seed-S`
    per seed, complete or absent: after an interruption, the same call resumes with the first missing seed.

    Raises BadInput before work starts if `check_splits`, `check_fits` or the settings refuse, if no model can
    be read, or if `folder` holds the seeds of another run; IsolossError if a loss is not finite, another
    process works in the folder, or writing to disk fails.
    """
    settings = settings or FineTuningSettings()
    check_splits(splits, classes)
    settings.steps(len(splits.train))
    place = usable_device(device)
    check_fits(splits, load_classifier(checkpoint, classes, seed=0).config)
    specification = _specification(checkpoint, splits, classes, settings)
    folders = tuple(folder / f"seed-{seed}" for seed in settings.seeds)
    with only_process_in(folder), caller_randomness_kept(place):
        for unfinished in folder.glob(".seed-*.part"):
            shutil.rmtree(unfinished)
        for path in folders:
            if path.exists():
                _read(path, specification)
        for done, (seed, path) in enumerate(zip(settings.seeds, folders, strict=True)):
            if not path.exists():
                model = load_classifier(checkpoint, classes, derived_seed(seed, "fine-tuning head")).to(place)
                report = part_of(progress, done, len(folders))
                found = fine_tune_seed(model, SentenceInputs.of(splits), settings, seed, report)
                _write(path, checkpoint, model, found, specification)
            progress(TASK, done + 1, len(folders))
        results = [_read(path, specification) for path in folders]
    return FineTuningResult(
        Accuracy.of("fine_tuning_best", torch.tensor([result["best"] for result in results]).double()),
        Accuracy.of("fine_tuning_last", torch.tensor([result["last"] for result in results]).double()),
        tuple(result["best_epoch"] for result in results),
        folders,
    )


def _specification(
    checkpoint: Path, splits: TaskSplits, classes: tuple[str, ...], settings: FineTuningSettings
) -> dict[str, Any]:
    """Everything that a seed's result depends on besides the seed."""
    digest = hashlib.sha256()
    for path in sorted(checkpoint.iterdir()):
        if path.name == "config.json" or path.suffix in {".safetensors", ".bin"}:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    kept = settings_as_json(settings)
    del kept["seeds"]
    return {
        "settings": kept,
        "checkpoint": digest.hexdigest(),
        "examples": splits_digest(splits),
        "classes": list(classes),
    }


def _write(
    path: Path, checkpoint: Path, model: PreTrainedModel, found: FineTuned, specification: dict[str, Any]
) -> None:
    result = {
        "specification": specification,
        "validation": found.validation,
        "best_epoch": found.best_epoch,
        "best": found.best.int().tolist(),
        "last": found.last.int().tolist(),
    }
    with complete_folder(path) as folder:
        with quiet():
            model.save_pretrained(folder)
        copy_tokenizer(checkpoint, folder)
        files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
        result["files"] = {file.relative_to(folder).as_posix(): file_digest(file) for file in files}
        write_sealed(folder / RESULT_FILE, result, RESULT_FILE)


def _read(path: Path, specification: dict[str, Any]) -> dict[str, Any]:
    """A finished seed's result. Raises BadInput if it cannot be read or belongs to another run."""
    try:
        result: dict[str, Any] = read_sealed(path / RESULT_FILE, RESULT_FILE)
        there = result["specification"]
        for name, digest in result.get("files", {}).items():
            if file_digest(path / name) != digest:
                raise ValueError(f"{name} is not what was written")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise BadInput(
            f"{path} holds no finished fine-tuning ({error}); delete it or name another folder"
        ) from error
    if difference := first_difference(there, specification):
        raise BadInput(
            f"{path} holds another fine-tuning: its {difference}; name another folder, or delete this one"
        )
    return result


FOLDER = "fine-tuned"
"""Beside a run's checkpoints: the fine-tuned models, by step and by what they were measured on."""


@dataclass(frozen=True)
class FineTuningQuantity:
    """A task of the language by name, the sizes of its splits, and the fine-tuning settings."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = TaskSplits

    task: str
    train: int
    validation: int
    test: int
    settings: FineTuningSettings
    seed: int

    def draw(
        self,
        source: Language,
        objective: PretrainingObjective,  # noqa: ARG002
        progress: Progress,
    ) -> TaskSplits:
        """See `Quantity`."""
        progress(f"examples of {self.task}", 0, 1)
        task = named_task(source, self.task)
        return task_splits(task, self.train, self.validation, self.test, self.seed)

    def measure(
        self, model: PreTrainedModel, drawn: TaskSplits, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        """See `FineTuning.records`; fine-tunes from the checkpoint's folder, on the model's device."""
        found = fine_tune(
            subject.folder,
            drawn,
            tuple(named_task(subject.source, self.task).classes),
            kept_models(subject),
            self.settings,
            device=str(model.device),
            progress=progress,
        )
        records = found.records(subject.checkpoint, {**subject.settings, "task": self.task})
        return Measurement(records, found.best.sentence_values() | found.last.sentence_values())

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `Quantity`."""
        return accuracy_names("fine_tuned")

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: the test accuracy of the best validation epoch, with errors as for a probe."""
        return accuracy_columns("fine_tuned", *records[:2])


def kept_models(subject: Subject[Any]) -> Path:
    """Where models fine-tuned from a checkpoint are stored: in its run's folder, raw weights separately."""
    measured_on = str(subject.settings["measured_on"])
    if subject.folder.name == RAW_FOLDER:
        checkpoint, measured_on = subject.folder.parent, f"{measured_on}-{RAW_FOLDER}"
    else:
        checkpoint = subject.folder
    return checkpoint.parent.parent / FOLDER / checkpoint.name / measured_on
