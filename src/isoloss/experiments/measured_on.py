"""What every checkpoint of a figure is measured on: drawn once, shared by all, kept on disk."""

import hashlib
import io
import json
from dataclasses import dataclass
from pathlib import Path

import torch

from isoloss.errors import BadInput
from isoloss.files import write_atomically
from isoloss.languages.language import Language
from isoloss.languages.splits import task_splits
from isoloss.languages.task import Task, TaskSplits
from isoloss.measurements.exact_loss import EvaluationSet
from isoloss.measurements.flatness import FlatnessSet
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.specification import settings_as_json
from isoloss.progress import Progress, silent


@dataclass(frozen=True)
class MeasurementSettings:
    """How many sentences each quantity is measured on, the probe's settings, and one seed for all."""

    loss_sentences: int
    trace_sentences: int
    probe_train: int
    probe_validation: int
    probe_test: int
    probe: ProbeSettings = ProbeSettings()  # noqa: RUF009  (frozen)
    seed: int = 20230701

    def digest(self, language: Language, task: Task) -> str:
        """A short hexadecimal name: equal names mean numbers that can be compared."""
        settings = [settings_as_json(self), language.digest, task.name]
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class MeasuredOn:
    """The sentences, laws and labels behind every number of a figure."""

    digest: str
    evaluation: EvaluationSet
    flatness: FlatnessSet
    task: str
    classes: int
    splits: TaskSplits
    probe: ProbeSettings


def draw(
    settings: MeasurementSettings, language: Language, task: Task, progress: Progress = silent
) -> MeasuredOn:
    """Draw everything from `settings.seed`; a pure function of its arguments."""
    seed = settings.seed
    splits = task_splits(task, settings.probe_train, settings.probe_validation, settings.probe_test, seed)
    return MeasuredOn(
        digest=settings.digest(language, task),
        evaluation=EvaluationSet.draw(language, settings.loss_sentences, seed + 1, progress),
        flatness=FlatnessSet.draw(language, MaskedObjective(), settings.trace_sentences, seed + 2),
        task=task.name,
        classes=len(task.classes),
        splits=splits,
        probe=settings.probe,
    )


def save(measured_on: MeasuredOn, folder: Path) -> Path:
    """Write to a file of `folder` named for the content; return its path."""
    path = folder / f"measured-on-{measured_on.digest}.pt"
    content = io.BytesIO()
    torch.save(measured_on, content)
    write_atomically(path, content.getvalue())
    return path


def load(path: Path) -> MeasuredOn:
    """Read what `save` wrote. Raises BadInput when the file is damaged."""
    try:
        found = torch.load(path, weights_only=False)
    except Exception as error:
        raise BadInput(f"{path} is damaged ({type(error).__name__}); delete it and run again") from error
    assert isinstance(found, MeasuredOn)
    return found
