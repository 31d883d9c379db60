"""A planned run's folder: its plan, which suffices to rerun it, and what has been measured or is missing."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.errors import BadInput, IsolossError
from isoloss.experiments.languages import LanguagePlan, ReadyLanguage
from isoloss.experiments.planned_run import CorpusPlan, PlannedRun, Weights, quantity_digest, weights_setting
from isoloss.files import file_digest, write_atomically
from isoloss.languages.language import Language, WritesItself
from isoloss.measurements.quantity import Quantity
from isoloss.objectives.batch import PretrainingObjective
from isoloss.pretraining.specification import settings_as_json
from isoloss.progress import Progress, silent
from isoloss.results.checkpoint import (
    MEASURED_FOLDER,
    PLAN_FILE,
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
from isoloss.results.store import read_sealed, write_sealed
from isoloss.results.tensors import drawn_of, read_tensors, tensors_of, write_tensors

DRAWN_FOLDER = "measured-on"
"""Within a folder of results: the data that all models of a quantity are measured on."""


def store_plan(run: PlannedRun, language: Language | PackedCorpus, output: Path) -> None:
    """Write `plan.json` into the run's folder, and the language as a file of its own kind if it has one.

    The plan records the run's name as last planned, its language, the run that it continues, and all
    measurements ever planned for it; a damaged plan is rewritten with what is planned now. The caller must
    hold the folder's lock. Raises IsolossError if it cannot be written.
    """
    folder = run.folder(output)
    plan = {
        "name": run.name,
        "labels": dict(run.labels),
        "saturated_from": run.saturated_from,
        "digest": run.digest,
        "language": _stored_language(run.language, language, folder),
        "continues": {"run": run.continues.run.digest[:16], "step": run.continues.step}
        if run.continues
        else None,
        "measured": _measured(run, folder / PLAN_FILE),
    }
    if plan != _known_plan(run, folder / PLAN_FILE):
        write_sealed(folder / PLAN_FILE, plan, PLAN_FILE)


def _known_plan(run: PlannedRun, path: Path) -> dict[str, Any] | None:
    """The run's stored plan; None if there is none, or it is damaged or another run's."""
    try:
        plan = read_sealed(path, PLAN_FILE)
    except BadInput:
        return None
    return plan if plan.get("digest") == run.digest else None


def _stored_language(
    plan: LanguagePlan | CorpusPlan, language: Language | PackedCorpus, folder: Path
) -> dict[str, Any]:
    """The language in the plan, its file written where it has one."""
    stored: dict[str, Any] = {"digest": language.digest, "plan": _plan_settings(plan)}
    if isinstance(language, WritesItself):
        file = language.file()
        digest = hashlib.sha256(file.text.encode()).hexdigest()
        if not (folder / file.name).is_file() or file_digest(folder / file.name) != digest:
            write_atomically(folder / file.name, file.text)
        stored |= {"file": file.name, "sha256": digest, "maximum_length": file.maximum_length}
    if isinstance(language, PackedCorpus) and language.commit is not None:
        stored |= {"commit": language.commit}
    return stored


def _plan_settings(plan: LanguagePlan | CorpusPlan) -> Any:
    """How the language is constructed, if it is not a ready one and is defined by plain settings."""
    if isinstance(plan, ReadyLanguage):
        return None
    try:
        return settings_as_json(plan)
    except BadInput:
        return {"is": type(plan).__name__, "digest": plan.digest}


def _measured(run: PlannedRun, path: Path) -> list[dict[str, Any]]:
    """The planned measurements, their data and steps, merged with those planned before."""
    before = (_known_plan(run, path) or {"measured": []})["measured"]
    entries = {(entry["measured_on"], entry.get("weights")): entry for entry in before}
    for measured in run.measured:
        digest = run.measured_on(measured.quantity)
        weights = weights_setting(measured.weights)
        entry = (digest, weights.get("weights"))
        known = entries.get(entry, {"steps": []})["steps"]
        settings = settings_as_json(measured.quantity)
        entries[entry] = {
            "measured_on": digest,
            **weights,
            "quantity": settings,
            "steps": sorted({*known, *measured.steps}),
        }
    return list(entries.values())


@dataclass(frozen=True)
class PlannedMeasurement:
    """One quantity of a run at one step, for one of the two sets of weights that a checkpoint may hold."""

    run: PlannedRun
    step: int
    quantity: Quantity
    weights: Weights = "kept"

    @property
    def settings(self) -> dict[str, Setting]:
        """What its records have of when and of what they were measured."""
        measured_on = self.run.measured_on(self.quantity)
        return {"step": self.step, "measured_on": measured_on, **weights_setting(self.weights)}

    @property
    def name(self) -> str:
        """That of its measurement."""
        return measurement_name(self.run.measured_on(self.quantity), **weights_setting(self.weights))

    def store(self, output: Path) -> Measurements:
        """All that has been measured at the step."""
        return measurements_at(self.run.folder(output), self.run.digest[:16], self.step)

    def records(self, output: Path) -> list[Record]:
        """Empty if it has not been measured, or is damaged."""
        return self.store(output).intact(self.name)


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
    if _has_last_checkpoint(run, output) and not (plan := run.folder(output) / PLAN_FILE).exists():
        found.append(f"{plan} is missing; it is written anew, which costs nothing")
    for wanted in _planned(run):
        if damage := wanted.store(output).damage(wanted.name):
            stored = (run.folder(output) / STEPS_FOLDER / f"{wanted.step:06d}").is_dir()
            anew = f"train all {run.steps:,} steps again" if not stored else "load its checkpoint"
            found.append(f"{damage}; it is measured again, which has to {anew}")
    return found


def is_complete(run: PlannedRun, output: Path) -> bool:
    """Whether the run has been trained to its end and all planned measurements have been made.

    A run whose records were unpacked here counts as trained, although its checkpoints are elsewhere.
    """
    if _has_last_checkpoint(run, output):
        finished = _is_described(run, output) and not is_unpacked(run.folder(output))
    else:
        finished = is_finished(run.folder(output), run.digest[:16])
    return finished and not any(True for _ in missing(run, output))


def is_records_alone(run: PlannedRun, output: Path) -> bool:
    """Whether the run is complete without its checkpoints, because its records were unpacked."""
    return not _has_last_checkpoint(run, output) and is_complete(run, output)


def is_unpacked(folder: Path) -> bool:
    """Whether the run's records were unpacked, and have not been compared with weights trained here."""
    return (folder / FINISHED_FILE).exists()


def _is_described(run: PlannedRun, output: Path) -> bool:
    """Whether the small files that describe the run are intact, apart from those of its checkpoints."""
    damage = read_run_folder(run.folder(output)).damage
    harmed = (_is_looked_at(name, run, output) for name in damage if not name.startswith(STEPS_FOLDER))
    return (run.folder(output) / PLAN_FILE).is_file() and not any(harmed)


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


def missing(run: PlannedRun, output: Path) -> Iterator[PlannedMeasurement]:
    """What is planned and has not been measured, or whose file is damaged."""
    return (wanted for wanted in _planned(run) if not wanted.records(output))


def _planned(run: PlannedRun) -> Iterator[PlannedMeasurement]:
    """The planned measurements, by step and, within a step, by set of weights."""
    for step in run.checkpoint_steps:
        # Experiments that share the run may each request a quantity, at overlapping steps.
        measured = (each for each in run.measured if step in each.steps)
        asked = [PlannedMeasurement(run, step, each.quantity, each.weights) for each in measured]
        yield from sorted(dict.fromkeys(asked), key=lambda wanted: wanted.weights)


def drop_records_of_other_weights(folder: Path) -> None:
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


def drawn(
    quantity: Quantity,
    source: Language | PackedCorpus,
    source_digest: str,
    objective: PretrainingObjective,
    output: Path,
    progress: Progress = silent,
    tell: Callable[[str], None] = lambda _: None,
) -> Any:
    """The quantity's data, of its type `drawn_as`: drawn at the first call, and stored in `output`.

    If the file is damaged or in another format, they are drawn again, without loss, and `tell` is notified.
    Raises BadInput if the quantity does not apply to such models, IsolossError if it cannot be written.
    """
    if not isinstance(source, quantity.sources):
        raise BadInput(
            f"{type(quantity).__name__} cannot be measured on a {type(source).__name__}; choose another"
        )
    name = quantity_digest(quantity, source_digest, objective)
    path = output / DRAWN_FOLDER / f"{name}.safetensors"
    if path.exists():
        try:
            return drawn_of(quantity.drawn_as, read_tensors(path, name))
        except BadInput:
            tell(f"{path} was damaged or of another format; it has been drawn again, to the same numbers")
    found = quantity.draw(source, objective, progress)
    write_tensors(path, tensors_of(found), name)
    return found
