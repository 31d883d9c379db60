"""A run as recorded in its folder, read from small files only: no weights, and no torch to wait for."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from isoloss.errors import BadInput, did_you_mean
from isoloss.files import file_digest
from isoloss.results.checkpoint import MEASURED_FOLDER, RECORD_FILE, SPECIFICATION_FILE, STEPS_FOLDER
from isoloss.results.record import Record
from isoloss.results.store import read_sealed
from isoloss.stored_runs.measured_files import (
    damaged_names,
    finished_checkpoints,
    measured_thing,
    names_in,
    read_measurement,
)

# As in `pretraining.run_folder` and `kept_plan`, which need torch.
PLAN_FILE, LOCK_FILE = "plan.json", ".lock"

REVISIONS: dict[str, int] = {"RootFisherQuantity": 2, "UntrainedTextProbe": 2}
"""Revisions of the quantities whose `revision` is above 1, by class name. They are repeated here because
`isoloss runs` does not import torch, which the classes need; a test compares the two."""

Json = dict[str, Any]
_KINDS: dict[str, type] = {
    "files": dict, "versions": dict, "readings": dict, "labels": dict, "runs": dict, "measured": list,
}  # fmt: skip
"""The types of the values whose contents readers access."""
State = Literal["complete", "unfinished", "out of date", "damaged"]


@dataclass(frozen=True)
class StoredCheckpoint:
    """A checkpoint's step, its own record (see `pretraining.checkpoint`), and its measurements."""

    step: int
    content: Json
    records: tuple[Record, ...]


@dataclass(frozen=True)
class StoredRun:
    """A run's folder, what was planned, and what of it is there.

    `names` are experiments' names for it, by experiment. `specification` is empty if it cannot be read,
    `plan` if the run was made without one. `damage` has a sentence for each thing that is not as it was
    written; weights are only looked for, not verified. Numbers from an older revision of a quantity are not
    among the records: `out_of_date` names those quantities that have not been measured again.
    """

    folder: Path
    specification: Json
    plan: Json
    checkpoints: tuple[StoredCheckpoint, ...]
    names: dict[str, str] = field(default_factory=dict)
    damage: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its folder, which identifies it in requests."""
        return self.folder.name

    @property
    def step(self) -> int:
        """The last step that has a checkpoint, 0 for none."""
        return max((checkpoint.step for checkpoint in self.checkpoints), default=0)

    @property
    def planned_steps(self) -> int:
        """The number of planned steps."""
        return int(self.specification.get("steps", 0))

    @property
    def missing(self) -> int:
        """The number of planned measurements that are missing."""
        made = {
            (checkpoint.step, record.settings.get("measured_on"), record.settings.get("weights"))
            for checkpoint in self.checkpoints
            for record in checkpoint.records
        }
        planned = [
            (step, each["measured_on"], each.get("weights"))
            for each in self.plan.get("measured", [])
            if not _is_old(each["quantity"], self.plan)
            for step in each["steps"]
        ]
        return sum(each not in made for each in planned)

    @property
    def out_of_date(self) -> tuple[str, ...]:
        """The quantities whose last plan has an older revision than today's."""
        quantities = [each["quantity"] for each in self.plan.get("measured", [])]
        old = [each for each in quantities if _is_old(each, {})]
        anew = [_without_revision(each) for each in quantities if not _is_old(each, {})]
        return tuple(dict.fromkeys(str(each["is"]) for each in old if _without_revision(each) not in anew))

    @property
    def state(self) -> State:
        """Complete: trained to its end, with all planned measurements."""
        if self.damage:
            return "damaged"
        if self.out_of_date:
            return "out of date"
        return "complete" if 0 < self.planned_steps <= self.step and not self.missing else "unfinished"

    @property
    def state_in_words(self) -> str:
        """The state, with the reason."""
        if self.damage:
            return f"damaged: {'; '.join(self.damage)}"
        if self.out_of_date:
            quantities = ", ".join(self.out_of_date)
            return f"out of date: {quantities} has another revision now; reproduce it again to measure anew"
        if self.step < self.planned_steps:
            return f"unfinished: trained to step {self.step:,} of {self.planned_steps:,}"
        return f"unfinished: {self.missing} measurements are missing" if self.missing else "complete"

    @property
    def last_records(self) -> list[Record]:
        """For each quantity, task and part of the model, the record of the last step.

        Among those of one quantity, the plainest comes first: an enlarged model's trace, or an untrained
        one's accuracy, comes after the run's own.
        """
        found: dict[tuple[Any, ...], Record] = {}
        for checkpoint in self.checkpoints:
            for record in checkpoint.records:
                found[measured_thing(record)] = record
        return sorted(found.values(), key=self._peculiarity)

    def _peculiarity(self, record: Record) -> tuple[int, bool, int]:
        """Smaller for plainer records: fewer settings, no quantity `of` another, planned before others."""
        planned = self.plan.get("measured", [])
        places = [
            place
            for place, each in enumerate(planned)
            if each["measured_on"] == record.settings.get("measured_on")
        ]
        place = places[0] if places else len(planned)
        own = planned[place]["quantity"] if places else {}
        return len(record.settings.keys() - {"group"}), "of" in own, place


def runs_in(folder: Path) -> list[StoredRun]:
    """All runs in the folder and below it, by path.

    Raises BadInput if there is no such folder, or no run in it.
    """
    if not folder.is_dir():
        raise BadInput(f"there is no folder {folder}; name a folder of results, such as results/laptop")
    names: dict[Path, dict[str, dict[str, str]]] = {}
    found = [_read(run, names) for run in sorted(_run_folders(folder))]
    if not found:
        raise BadInput(f"there is no run in {folder} or below it; name another folder of results")
    return found


def stored_run(folder: Path) -> StoredRun:
    """The run in a folder. Raises BadInput if the folder is not a run's."""
    if not _is_run(folder):
        raise BadInput(
            f"{folder} is no run: it has no {SPECIFICATION_FILE} and {STEPS_FOLDER}; name a run's folder"
        )
    return _read(folder, {})


def find_run(wanted: str, results: Path) -> StoredRun:
    """The requested run: a folder, the start of a folder's name below `results`, or an experiment's name.

    The latter consists of the experiment and the run, such as "figure-1 width-32-seed-1". Raises BadInput if
    no run matches, or several do.
    """
    if _is_run(Path(wanted)):
        return stored_run(Path(wanted))
    runs = runs_in(results)
    meant = [run for run in runs if run.name.startswith(wanted) or wanted in full_names(run)]
    if not meant:
        near = did_you_mean(wanted, [name for run in runs for name in (run.name, *full_names(run))])
        advice = near or f"; `isoloss runs {results}` lists them"
        damage = "".join(f"; {said}" for said in damaged_names(results_of(run.folder) for run in runs))
        raise BadInput(f"no run below {results} is called {wanted!r}{advice}{damage}")
    if len(meant) > 1:
        some = ", ".join(str(run.folder) for run in meant[:3])
        raise BadInput(f"{wanted!r} means {len(meant)} runs: {some}; give more of the name, or a folder")
    return meant[0]


def results_of(run: Path) -> Path:
    """The folder of results that a run's folder is in."""
    return run.resolve().parent.parent


def full_names(run: StoredRun) -> list[str]:
    """Experiments' names for the run, each with its experiment."""
    return [f"{experiment} {name}" for experiment, name in run.names.items()]


def _run_folders(folder: Path) -> Iterator[Path]:
    """Runs' folders; folders below one are not searched."""
    for place, folders, _ in os.walk(folder):
        if _is_run(Path(place)):
            yield Path(place)
            folders.clear()


def _is_run(folder: Path) -> bool:
    """Whether a run was started there: a site also offers copies of specifications, which are not runs."""
    begun = (STEPS_FOLDER, PLAN_FILE, LOCK_FILE)
    return (folder / SPECIFICATION_FILE).exists() and any((folder / name).exists() for name in begun)


def _read(folder: Path, known_names: dict[Path, dict[str, dict[str, str]]]) -> StoredRun:
    damage: list[str] = []
    specification = _object(folder / SPECIFICATION_FILE, SPECIFICATION_FILE, damage)
    plan = _plan(folder, damage)
    said = {int(path.name): path for path in (folder / STEPS_FOLDER).glob("*") if path.name.isdecimal()}
    contents = {step: _checkpoint(path, damage) for step, path in said.items()}
    contents = {content["step"]: content for content in finished_checkpoints(folder)} | contents
    checkpoints = [
        StoredCheckpoint(step, contents[step], _records(folder, plan, step, damage))
        for step in sorted(contents)
    ]
    output = results_of(folder)
    if output not in known_names:
        known_names[output] = names_in(output)
    names = known_names[output].get(folder.name, {})
    return StoredRun(folder, specification, plan, tuple(checkpoints), names, tuple(damage))


def _checkpoint(path: Path, damage: list[str]) -> Json:
    content = _object(path / RECORD_FILE, RECORD_FILE, damage)
    for name in content.get("files", {}):
        if not (path / name).exists():
            damage.append(f"{path / name} is missing")
    return content


def _plan(folder: Path, damage: list[str]) -> Json:
    """The run's plan; empty if it has none, or another run's, which adds a sentence to `damage`."""
    path = folder / PLAN_FILE
    if not path.exists():
        return {}
    plan = _object(path, PLAN_FILE, damage)
    known = all(
        isinstance(each, dict)
        and isinstance(each.get("measured_on"), str)
        and isinstance(each.get("quantity"), dict)
        and isinstance(each.get("steps"), list)
        for each in plan.get("measured", [])
    )
    ours = re.fullmatch("[0-9a-f]{16}", folder.name)  # a copy may have any name
    if not known or (ours and str(plan.get("digest", ours[0]))[:16] != ours[0]):
        damage.append(f"{path} is not what was written")
        return {}
    language = plan.get("language")
    if isinstance(language, dict) and "sha256" in language:
        file = folder / str(language.get("file"))
        if not file.is_file() or file_digest(file) != language["sha256"]:
            damage.append(f"{file} is not what was written")
    return plan


def _records(folder: Path, plan: Json, step: int, damage: list[str]) -> tuple[Record, ...]:
    records: list[Record] = []
    old = {each["measured_on"] for each in plan.get("measured", []) if _is_old(each["quantity"], plan)}
    for file in sorted((folder / MEASURED_FOLDER / f"{step:06d}").glob("*.jsonl")):
        try:
            records += read_measurement(file, str(plan.get("digest", folder.name))[:16], step)
        except BadInput as error:
            damage.append(str(error))
    return tuple(record for record in records if record.settings.get("measured_on") not in old)


def _is_old(quantity: Json, plan: Json) -> bool:
    """Whether the quantity has a newer revision, today or in the plan."""
    newer = [
        each["quantity"].get("revision", 1)
        for each in plan.get("measured", [])
        if _without_revision(each["quantity"]) == _without_revision(quantity)
    ]
    return bool(quantity.get("revision", 1) < max([REVISIONS.get(str(quantity.get("is")), 1), *newer]))


def _without_revision(quantity: Json) -> Json:
    return {key: value for key, value in quantity.items() if key != "revision"}


def _object(path: Path, name: str, damage: list[str]) -> Json:
    """A file's JSON object; empty if it is not one, with a sentence in `damage`."""
    try:
        content = read_sealed(path, name)
    except BadInput as error:
        cause = error.__cause__
        reason = (cause.strerror if isinstance(cause, OSError) else cause) or "it is not what was written"
        damage.append(f"{path} cannot be read ({reason})")
        return {}
    if not all(isinstance(content.get(key, kind()), kind) for key, kind in _KINDS.items()):
        damage.append(f"{path} is not what was written")
        return {}
    return content
