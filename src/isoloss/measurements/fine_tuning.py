"""How well a fine-tuned pre-trained model predicts the label of a sentence or a text (A.5)."""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from isoloss.corpora.labelled_texts import TextTask
from isoloss.device import usable_device
from isoloss.errors import BadInput
from isoloss.files import complete_folder, file_digest, only_process_in
from isoloss.languages.task import TaskSplits
from isoloss.measurements.fine_tuning_run import (
    TASK,
    Classifier,
    FineTuned,
    FineTuningSettings,
    WordsClassifier,
    classifier_of,
    fine_tune_seed,
    load_classifier,
)
from isoloss.measurements.labelled_inputs import (
    LONGEST,
    InputSplits,
    SentenceInputs,
    check_fits,
    check_splits,
    splits_digest,
    text_splits,
)
from isoloss.measurements.linear_probe import Accuracy
from isoloss.models.hub import quiet
from isoloss.models.tokenizer import copy_tokenizer
from isoloss.pretraining.specification import first_difference, settings_as_json
from isoloss.progress import Progress, part_of, silent
from isoloss.results.store import read_sealed, write_sealed
from isoloss.seeds import caller_randomness_kept, derived_seed

RESULT_FILE = "fine_tuning.json"


@dataclass(frozen=True)
class FineTuningResult:
    """Test accuracies of the models of the best validation epoch and of the last epoch.

    `best_epochs` counts from 1, one per seed; `checkpoints` are the folders of those models, if stored, which
    `AutoModelForSequenceClassification` can load (`AutoModel`, without the head, where that reads every
    word).
    """

    best: Accuracy
    last: Accuracy
    best_epochs: tuple[int, ...]
    checkpoints: tuple[Path, ...] = ()

    @staticmethod
    def of(
        best: Tensor, last: Tensor, best_epochs: tuple[int, ...], checkpoints: tuple[Path, ...] = ()
    ) -> "FineTuningResult":
        """From matrices with 1 where a seed's model (row) is right about a test example (column), else 0."""
        return FineTuningResult(
            Accuracy.of("fine_tuning_best", best.double()),
            Accuracy.of("fine_tuning_last", last.double()),
            best_epochs,
            checkpoints,
        )


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
    """Fine-tune the checkpoint once per seed, and evaluate each on the test split.

    After each epoch, the model is evaluated on the validation split; the test split is used once per seed,
    with the best epoch's model (the first in case of ties) and the last one's. `folder` receives one
    checkpoint `seed-S` per seed, complete or absent: after an interruption, the same call resumes with the
    first missing seed. What the head reads is said in `FineTuningSettings`.

    Raises BadInput before work starts if `check_splits`, `check_fits` or the settings refuse, if no model can
    be read, or if `folder` holds the seeds of another run; IsolossError if a loss is not finite, another
    process works in the folder, or writing to disk fails.
    """
    settings = settings or FineTuningSettings()
    check_splits(splits, classes)
    settings.steps(len(splits.train))
    place = usable_device(device)
    check_fits(splits, load_classifier(checkpoint, classes, seed=0))
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
                model = _classifier(checkpoint, splits, classes, settings, seed).to(place)
                report = part_of(progress, done, len(folders))
                found = fine_tune_seed(model, SentenceInputs.of(splits), settings, seed, report)
                _write(path, checkpoint, model, found, specification)
            progress(TASK, done + 1, len(folders))
        results = [_read(path, specification) for path in folders]
    best, last = (torch.tensor([result[name] for result in results]) for name in ("best", "last"))
    return FineTuningResult.of(best, last, tuple(result["best_epoch"] for result in results), folders)


def _classifier(
    checkpoint: Path, splits: TaskSplits, classes: tuple[str, ...], settings: FineTuningSettings, seed: int
) -> Classifier:
    head_seed = derived_seed(seed, "fine-tuning head")
    model = load_classifier(checkpoint, classes, head_seed)
    if not settings.every_word:
        return model
    words = max(part.sentences.ids.shape[1] for part in (splits.train, splits.validation, splits.test))
    return WordsClassifier(model.base_model, words, len(classes), head_seed)


def _specification(
    checkpoint: Path, splits: TaskSplits, classes: tuple[str, ...], settings: FineTuningSettings
) -> dict[str, Any]:
    """Everything that a seed's result depends on besides the seed."""
    digest = hashlib.sha256()
    for path in sorted(checkpoint.iterdir()):
        if path.name == "config.json" or path.suffix in {".safetensors", ".bin"}:
            digest.update(bytes.fromhex(file_digest(path)))
    content = settings_as_json(settings)
    del content["seeds"]
    return {
        "settings": content,
        "checkpoint": digest.hexdigest(),
        "examples": splits_digest(splits),
        "classes": list(classes),
    }


def _write(
    path: Path, checkpoint: Path, model: Classifier, found: FineTuned, specification: dict[str, Any]
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
        for name, digest in result["files"].items():
            if file_digest(path / name) != digest:
                raise ValueError(f"{name} is not what was written")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"{path} holds no finished fine-tuning ({error}); delete it or name another folder"
        ) from error
    if difference := first_difference(there, specification):
        raise BadInput(
            f"{path} holds another fine-tuning: its {difference}; name another folder, or delete this one"
        )
    return result


def fine_tune_text(
    model: PreTrainedModel,
    tokenizer: Any,
    task: TextTask,
    settings: FineTuningSettings | None = None,
    *,
    longest: int = LONGEST,
    progress: Progress = silent,
) -> FineTuningResult:
    """Fine-tune a copy of the language model once per seed, and evaluate each on the test texts.

    See `classifier_of` for what the head reads, and `fine_tune` for what validation and test texts are used
    for. `model` is not changed.

    Raises BadInput before work starts if `check_splits`, `text_splits`, `classifier_of` or the settings
    refuse, and IsolossError if a loss is not finite.
    """
    settings = settings or FineTuningSettings()
    inputs = fine_tuning_inputs(model, tokenizer, task, settings, longest)
    found = []
    for done, seed in enumerate(settings.seeds):
        report = part_of(progress, done, len(settings.seeds))
        found.append(fine_tune_text_seed(model, task.classes, inputs, settings, seed, report))
        progress(TASK, done + 1, len(settings.seeds))
    best, last = torch.stack([each.best for each in found]), torch.stack([each.last for each in found])
    return FineTuningResult.of(best, last, tuple(each.best_epoch for each in found))


def fine_tuning_inputs(
    model: PreTrainedModel,
    tokenizer: Any,
    task: TextTask,
    settings: FineTuningSettings,
    longest: int = LONGEST,
) -> InputSplits:
    """The task as the model reads it. Raises BadInput if nothing can be learnt from it or measured on it."""
    if settings.every_word:
        raise BadInput("texts have no fixed number of words for a head to read; fine-tune on [CLS]'s vector")
    splits = text_splits(model, tokenizer, task, longest)
    check_splits(splits, task.classes)
    settings.steps(len(splits.train))
    return splits


def fine_tune_text_seed(
    model: PreTrainedModel,
    classes: tuple[str, ...],
    inputs: InputSplits,
    settings: FineTuningSettings,
    seed: int,
    progress: Progress = silent,
) -> FineTuned:
    """One seed of `fine_tune_text`; memory is `fine_tune_seed`'s, beside the model itself."""
    head_seed = derived_seed(seed, "fine-tuning head")
    classifier = classifier_of(model, classes, head_seed, inputs.padding)
    with caller_randomness_kept(model.device):
        return fine_tune_seed(classifier, inputs, settings, seed, progress)
