"""One planned run: pre-train, then measure every checkpoint once."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.device import denormals_flushed
from isoloss.errors import BadInput, Damaged, IsolossError
from isoloss.experiments.planned_run import PlannedRun, Weights, drawn, quantity_digest, weights_setting
from isoloss.experiments.stored_plan import store_plan
from isoloss.files import only_process_in
from isoloss.languages.language import Language
from isoloss.measurements.quantity import Quantity, Subject
from isoloss.models.loading import load_causal_language_model, load_masked_language_model
from isoloss.objectives.batch import PretrainingObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.objectives.soft_labels import SoftLabels
from isoloss.pretraining.loop import pretrain
from isoloss.progress import Progress
from isoloss.results.checkpoint import (
    MEASURED_FOLDER,
    RAW_FOLDER,
    RECORD_FILE,
    SPECIFICATION_FILE,
    STEPS_FOLDER,
    checkpoint_folders,
    holds_another,
    read_checkpoint,
)
from isoloss.results.measurement_store import Measurements, measurement_name, measurements_at
from isoloss.results.record import Record, Setting
from isoloss.results.run_folder import FINISHED_FILE, OF_ANOTHER_RUN, is_finished, read_run_folder

TRAINING_SHARE = 0.7
"""About how much of a run's time its pre-training takes; only the progress bar depends on it."""


def carry_out(run: PlannedRun, output: Path, device: str, progress: Progress) -> tuple[str, ...]:
    """Pre-train and measure one run into its folder; existing results are not recomputed.

    Returns a sentence for each damaged checkpoint, which is skipped. Raises Damaged if the folder holds
    another run.
    """
    folder = run.folder(output)
    if what := holds_another(folder):
        raise Damaged(f"{folder} {what}")
    language = run.language.language(output, progress)
    with only_process_in(folder):
        store_plan(run, language, output)
        if _is_unpacked(folder) and not checkpoint_folders(folder):
            # Its start may have come to other last bits here, and with them to another specification.
            (folder / SPECIFICATION_FILE).unlink(missing_ok=True)

    def while_training(task: str, completed: float, total: float, message: str = "") -> None:
        progress(task, TRAINING_SHARE * completed, total, message)

    report = pretrain(
        run.specification(language, output),
        language,
        folder,
        start_from=run.start_from(output),
        device=device,
        progress=while_training,
    )
    with only_process_in(folder), denormals_flushed():
        if _is_unpacked(folder):
            _drop_records_of_other_weights(folder)
        damaged = _measure_missing(run, language, output, device, progress)
    progress("done", 1.0, 1.0)
    return (*report.damaged, *damaged)


def measured_records(
    run: PlannedRun, quantity: Quantity, step: int, output: Path, weights: Weights = "kept"
) -> list[Record]:
    """The records of a quantity's measurement at a step; empty if it has not been made, or is damaged."""
    wanted = _Measurement(step, quantity, weights)
    return _stored(run, step, output).intact(_name(run, wanted))


def damaged_files(run: PlannedRun, output: Path) -> list[str]:
    """A sentence for each damaged file of the run's plan and measurements, with the consequences.

    None for a folder that holds another run, which `carry_out` refuses.
    """
    found: list[str] = []
    if holds_another(run.folder(output)):
        return found
    described = read_run_folder(run.folder(output)).damage
    for name, what in described.items():
        consequence = "it is written anew, which costs nothing"
        if name.startswith(STEPS_FOLDER):
            consequence = "what was measured of the checkpoint is used, and nothing can be measured anew"
        elif not _has_last_checkpoint(run, output):
            consequence = "delete the run's folder and unpack or reproduce it again"
        elif what == OF_ANOTHER_RUN and all(_record_of(step) in described for step in run.checkpoint_steps):
            consequence = "put the run's own back, or delete its folder and reproduce it again"
        if _is_looked_at(name, run, output):
            found.append(f"{run.folder(output) / name} {what}; {consequence}")
    for wanted in _planned(run):
        if damage := _stored(run, wanted.step, output).damage(_name(run, wanted)):
            stored = (run.folder(output) / STEPS_FOLDER / f"{wanted.step:06d}").is_dir()
            anew = f"train all {run.steps:,} steps again" if not stored else "load its checkpoint"
            found.append(f"{damage}; it is measured again, which has to {anew}")
    return found


def is_complete(run: PlannedRun, output: Path) -> bool:
    """Whether the run has been trained to its end and all planned measurements have been made.

    A run whose records were unpacked here counts as trained, although its checkpoints are elsewhere.
    """
    if _has_last_checkpoint(run, output):
        finished = _is_described(run, output) and not _is_unpacked(run.folder(output))
    else:
        finished = is_finished(run.folder(output), run.digest[:16])
    return finished and not any(True for _ in _missing(run, output))


def is_records_alone(run: PlannedRun, output: Path) -> bool:
    """Whether the run is complete without its checkpoints, because its records were unpacked."""
    return not _has_last_checkpoint(run, output) and is_complete(run, output)


def _is_unpacked(folder: Path) -> bool:
    """Whether the run's records were unpacked, and have not been compared with weights trained here."""
    return (folder / FINISHED_FILE).exists()


def _drop_records_of_other_weights(folder: Path) -> None:
    """Of an unpacked run that has been trained again, drop what was measured on weights that it lacks here.

    Another processor rounds otherwise: measurements on both would not be of one run. They are made again.
    """
    for path in sorted(folder.glob(f"{MEASURED_FOLDER}/*/*.jsonl")):
        with suppress(IsolossError):
            checkpoint = read_checkpoint(folder / STEPS_FOLDER / path.parent.name)
            weights = checkpoint.raw_digest if path.stem.endswith("-raw") else checkpoint.digest
            records = measurements_at(folder, folder.name, checkpoint.step).records(path.stem)
            if {record.checkpoint for record in records} != {str(weights)[:16]}:
                path.unlink()
                path.with_suffix(".npz").unlink(missing_ok=True)
    (folder / FINISHED_FILE).unlink()


def _is_described(run: PlannedRun, output: Path) -> bool:
    """Whether the small files that describe the run are intact, apart from those of its checkpoints."""
    damage = read_run_folder(run.folder(output)).damage
    return not any(_is_looked_at(name, run, output) for name in damage if not name.startswith(STEPS_FOLDER))


def _is_looked_at(name: str, run: PlannedRun, output: Path) -> bool:
    """Whether damage to a file of the run matters: weights may be gone, a specification may be to come."""
    if name.startswith(STEPS_FOLDER):
        return name.endswith(RECORD_FILE)
    folder = run.folder(output)
    return name != SPECIFICATION_FILE or (folder / name).exists() or bool(checkpoint_folders(folder))


def _record_of(step: int) -> str:
    return f"{STEPS_FOLDER}/{step:06d}/{RECORD_FILE}"


def _has_last_checkpoint(run: PlannedRun, output: Path) -> bool:
    return (run.folder(output) / STEPS_FOLDER / f"{run.steps:06d}").is_dir()


@dataclass(frozen=True)
class _Measurement:
    """One quantity at one step, for one of the two sets of weights that a checkpoint may hold."""

    step: int
    quantity: Quantity
    weights: Weights


def _missing(run: PlannedRun, output: Path) -> Iterator[_Measurement]:
    for wanted in _planned(run):
        if not measured_records(run, wanted.quantity, wanted.step, output, wanted.weights):
            yield wanted


def _planned(run: PlannedRun) -> Iterator[_Measurement]:
    """The planned measurements, by step and, within a step, by set of weights."""
    for step in run.checkpoint_steps:
        # Experiments that share the run may each request a quantity, at overlapping steps.
        asked = [
            _Measurement(step, each.quantity, each.weights) for each in run.measured if step in each.steps
        ]
        yield from sorted(dict.fromkeys(asked), key=lambda wanted: wanted.weights)


def _stored(run: PlannedRun, step: int, output: Path) -> Measurements:
    return measurements_at(run.folder(output), run.digest[:16], step)


def _name(run: PlannedRun, wanted: _Measurement) -> str:
    digest = quantity_digest(wanted.quantity, run.language.digest, run.objective)
    return measurement_name(digest, **weights_setting(wanted.weights))


def _measure_missing(
    run: PlannedRun, language: Language | PackedCorpus, output: Path, device: str, progress: Progress
) -> list[str]:
    """Make the missing measurements; returns a sentence for each damaged checkpoint."""
    damaged: list[str] = []
    missing = list(_missing(run, output))
    sets: dict[Quantity, Any] = {}
    model: PreTrainedModel | None = None
    loaded: tuple[int, Weights] | None = None
    unusable = 0
    for done, wanted in enumerate(missing):
        step, quantity = wanted.step, wanted.quantity
        share = TRAINING_SHARE + (1 - TRAINING_SHARE) * done / len(missing)
        progress("measuring", share, 1.0, f"step {step:,}")
        if step == unusable:
            continue
        if model is None or loaded != (step, wanted.weights):
            try:
                folder, digest = _weights_of(run, wanted, output)
            except IsolossError as error:
                damaged.append(str(error))
                unusable = step
                continue
            model, loaded = _load(folder, run.objective).to(device), (step, wanted.weights)
        if quantity not in sets:
            sets[quantity] = drawn(
                quantity, language, run.language.digest, run.objective, output, tell=damaged.append
            )
        subject = Subject(digest[:16], run.objective, _settings(run, wanted), language, folder, seed=run.seed)
        found = quantity.measure(model, sets[quantity], subject, _within(progress, share, step))
        if not found.records or any(each.settings.get("step") != step for each in found.records):
            raise BadInput(
                f"{type(quantity).__name__} gives no records of step {step:,} of {run.name}; let measure "
                "return what subject.record makes"
            )
        _stored(run, step, output).write(_name(run, wanted), found.records, found.arrays)
    return damaged


def _weights_of(run: PlannedRun, wanted: _Measurement, output: Path) -> tuple[Path, str]:
    """The verified folder of the weights to be measured, and the digest of their file."""
    folder = run.folder(output) / STEPS_FOLDER / f"{wanted.step:06d}"
    checkpoint = read_checkpoint(folder)
    if wanted.weights == "kept":
        return folder, checkpoint.digest
    assert checkpoint.raw_digest is not None  # the run keeps an average, or else its plan is refused
    return folder / RAW_FOLDER, checkpoint.raw_digest


def _settings(run: PlannedRun, wanted: _Measurement) -> dict[str, Setting]:
    measured_on = quantity_digest(wanted.quantity, run.language.digest, run.objective)
    return {"step": wanted.step, "measured_on": measured_on, **weights_setting(wanted.weights)}


def _load(folder: Path, objective: PretrainingObjective) -> PreTrainedModel:
    if isinstance(objective, SoftLabels):
        objective = objective.of
    if isinstance(objective, NextWordObjective):
        return load_causal_language_model(str(folder))
    return load_masked_language_model(folder)


def _within(progress: Progress, share: float, step: int) -> Progress:
    """A measurement's progress: it names its stage, while the run's bar stays where it is."""

    def report(task: str, completed: float, total: float, message: str = "") -> None:  # noqa: ARG001
        progress("measuring", share, 1.0, f"step {step:,}, {task}")

    return report
