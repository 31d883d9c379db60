"""A run as recorded in its folder, read from small files only: no weights, and no torch to wait for."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from isoloss.errors import BadInput, Damaged, IsolossError, did_you_mean
from isoloss.files import is_temporary
from isoloss.results.checkpoint import PLAN_FILE, SPECIFICATION_FILE, STEPS_FOLDER
from isoloss.results.measurement_store import Measurements, measurements_at
from isoloss.results.record import STRENGTHS, Record
from isoloss.results.run_folder import FINISHED_FILE, LOCK_FILE, Json, RunFolder, read_run_folder, run_name
from isoloss.stored_runs.run_names import NAMES_FOLDER, damaged_names, names_in

REVISIONS: dict[str, int] = {"RootFisherQuantity": 2, "UntrainedTextProbe": 2}
"""Revisions of the quantities whose `revision` is above 1, by class name. They are repeated here because
`isoloss runs` does not import torch, which the classes need; a test compares the two."""

IDENTIFYING = ("measured_on", "weights", "task", "group", *STRENGTHS)
"""The settings that distinguish the measurements of one quantity at one step."""


@dataclass(frozen=True)
class StoredCheckpoint:
    """A checkpoint's step, its record (see `results.checkpoint`), and its measurements."""

    step: int
    content: Json
    records: tuple[Record, ...]


@dataclass(frozen=True)
class StoredRun:
    """A run's folder, what was planned, and what of it is there.

    `names` are experiments' names for it, by experiment. `specification` is empty if it cannot be read,
    `plan` if the run was made without one. `damage` has a sentence for each key that is not as it was
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
    def run(self) -> str:
        """The start of its plan's digest: the folder's name, unless the folder is a copy."""
        return run_name(self.folder, self.plan)

    @property
    def step(self) -> int:
        """The last step that has a checkpoint, 0 for none."""
        return max((checkpoint.step for checkpoint in self.checkpoints), default=0)

    @property
    def planned_steps(self) -> int:
        """The number of planned steps."""
        return int(self.specification.get("steps", 0))

    def measurements(self, step: int) -> Measurements:
        """Its measurements at a step."""
        return measurements_at(self.folder, self.run, step)

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
    def state(self) -> str:
        """Damaged, out of date, unfinished, or complete: trained to its end, with all that was planned."""
        return self.state_in_words.partition(":")[0]

    @property
    def state_in_words(self) -> str:
        """The state, with the reason."""
        if self.damage:
            return f"damaged: {'; '.join(self.damage)}"
        if self.out_of_date:
            quantities = ", ".join(self.out_of_date)
            return f"out of date: {quantities} has another revision now; reproduce it again to measure anew"
        if self.planned_steps == 0:
            return f"unfinished: trained to step {self.step:,} of a number that is not known"
        if self.step < self.planned_steps:
            return f"unfinished: trained to step {self.step:,} of {self.planned_steps:,}"
        return f"unfinished: {self.missing} measurements are missing" if self.missing else "complete"

    @property
    def last_records(self) -> list[Record]:
        """For each quantity, task and part of the model, the record of the last step.

        Among those of one quantity, the plainest comes first: an enlarged model's trace, or an untrained
        one's accuracy, comes after the run's.
        """
        found: dict[tuple[Any, ...], Record] = {}
        for checkpoint in self.checkpoints:
            for record in checkpoint.records:
                found[measurement_key(record)] = record
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
        quantity = planned[place]["quantity"] if places else {}
        return len(record.settings.keys() - {"group"}), "of" in quantity, place


def runs_in(folder: Path) -> list[StoredRun]:
    """All runs in the folder and below it, by path; links to folders are followed, and no run is there twice.

    Raises BadInput if there is no such folder, or no run in it, and OSError if it cannot be looked for.
    """
    if not folder.is_dir():
        raise BadInput(f"there is no folder {folder}; name a folder of results, such as results/laptop")
    names: dict[Path, dict[str, dict[str, str]]] = {}
    unread: list[OSError] = []
    found = [_read(run, names) for run in sorted(_run_folders(folder, unread))]
    if not found and unread:
        raise unread[0]
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
    """The requested run: a folder, the start of a folder's name below `results`, or the run's name.

    The latter may follow its experiment's, such as "figure-1 width-32-seed-1". Raises BadInput if no run
    matches, or several do; IsolossError if none does where names of runs are damaged.
    """
    if _is_run(Path(wanted)):
        return stored_run(Path(wanted))
    runs = runs_in(results)
    exact = [run for run in runs if run.name == wanted]
    named = {run.folder: [*full_names(run), *short_names(run)] for run in runs}
    meant = exact or [run for run in runs if run.name.startswith(wanted) or wanted in named[run.folder]]
    if not meant:
        near = did_you_mean(wanted, [name for run in runs for name in (run.name, *named[run.folder])])
        advice = near or f"; `isoloss runs {results}` lists them"
        damage = "".join(f"; {each}" for each in damaged_names(results_of(run.folder) for run in runs))
        kind = IsolossError if damage else BadInput  # it may be there, under a name that is lost
        raise kind(f"no run below {results} is called {wanted!r}{advice}{damage}")
    if len(meant) > 1:
        some = ", ".join(str(run.folder) for run in meant[:3])
        raise BadInput(f"{wanted!r} means {len(meant)} runs: {some}; give more of the name, or a folder")
    return meant[0]


def results_of(run: Path) -> Path:
    """The folder of results that a run's folder is in; of a link, where experiments' names are beside it."""
    here = run.absolute().parent.parent
    return here if (here / NAMES_FOLDER).is_dir() else run.resolve().parent.parent


def full_names(run: StoredRun) -> list[str]:
    """Experiments' names for the run, each with its experiment."""
    return [f"{experiment} {name}" for experiment, name in run.names.items()]


def short_names(run: StoredRun) -> list[str]:
    """Experiments' names for the run; if it is of none, that of its plan."""
    planned = [str(run.plan["name"])] if "name" in run.plan else []
    return list(run.names.values()) or planned


def measurement_key(record: Record) -> tuple[Any, ...]:
    """What a record measures, whatever the step: the quantity, and its settings in `IDENTIFYING`."""
    return (record.quantity, *(record.settings.get(key) for key in IDENTIFYING))


def _run_folders(folder: Path, unread: list[OSError]) -> Iterator[Path]:
    """Runs' folders; folders below one, and those of which a killed process wrote a part, are left out.

    Links are followed last, so that what is also there without one is found there, and first of those in one
    folder the ones named as what they lead to. One that leads to a folder above itself is not. `unread` gets
    the errors of folders that cannot be read.
    """
    seen: set[Path] = set()
    waiting = [folder]
    for start in waiting:
        for place, folders, _ in os.walk(start, onerror=unread.append):
            here, real = Path(place), Path(place).resolve()
            if real in seen:
                folders.clear()
            elif _is_run(here):
                yield here
                folders.clear()
            seen.add(real)
            folders[:] = [name for name in folders if not is_temporary(name)]
            links = [here / name for name in folders if (here / name).is_symlink()]
            links.sort(key=lambda link: (link.name != link.resolve().name, link.name))
            waiting += [link for link in links if not real.is_relative_to(link.resolve())]


def _is_run(folder: Path) -> bool:
    """Whether a run was started there, even if its specification is lost.

    A site also offers copies of specifications, which are not runs.
    """
    begun = {name for name in (STEPS_FOLDER, FINISHED_FILE, PLAN_FILE, LOCK_FILE) if (folder / name).exists()}
    if (folder / SPECIFICATION_FILE).exists():
        return bool(begun)
    return PLAN_FILE in begun and bool(begun & {STEPS_FOLDER, FINISHED_FILE})


def _read(folder: Path, known_names: dict[Path, dict[str, dict[str, str]]]) -> StoredRun:
    described = read_run_folder(folder)
    damage = [f"{folder / name} {what}" for name, what in described.damage.items()]
    checkpoints = [
        StoredCheckpoint(step, content, _records(described, step, damage))
        for step, content in described.checkpoints.items()
    ]
    output = results_of(folder)
    if output not in known_names:
        known_names[output] = names_in(output)
    names = known_names[output].get(folder.name, {})
    plan = described.plan
    return StoredRun(folder, described.specification, plan, tuple(checkpoints), names, tuple(damage))


def _records(described: RunFolder, step: int, damage: list[str]) -> tuple[Record, ...]:
    plan, measurements = described.plan, described.measurements(step)
    records: list[Record] = []
    old = {each["measured_on"] for each in plan.get("measured", []) if _is_old(each["quantity"], plan)}
    for name in measurements.names():
        try:
            records += measurements.records(name)
        except Damaged as error:
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
