"""What a run's folder holds, verified, and of this run."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isoloss.errors import Damaged
from isoloss.files import file_digest
from isoloss.results.checkpoint import (
    MEASURED_FOLDER,
    PLAN_FILE,
    RECORD_FILE,
    SPECIFICATION_FILE,
    STEPS_FOLDER,
    checkpoint_folders,
    contradicts_plan,
    holds_another,
    may_be_named,
)
from isoloss.results.measurement_store import Measurements, measurements_at
from isoloss.results.store import json_digest, read_sealed, write_sealed

OF_ANOTHER_RUN = "is that of another run"
LOCK_FILE = ".lock"
FINISHED_FILE = "finished.json"
"""For runs whose records were unpacked, whose checkpoints are elsewhere: the checkpoints' records."""

Json = dict[str, Any]

_KINDS: dict[str, type | tuple[type, ...]] = {
    "files": dict, "versions": dict, "readings": dict, "labels": dict, "measured": list, "steps": int,
    "training_loss": (int, float, type(None)), "specification_digest": (str, type(None)),
}  # fmt: skip
"""The types of the values whose contents readers access: whoever can write a file can compute its digest."""


@dataclass(frozen=True)
class RunFolder:
    """The files that describe a run; what is damaged, missing or another run's is empty, and named.

    `checkpoints` are the checkpoints' records by step, also those of an unpacked run that has none of its
    checkpoints. `run` is the name that the run's measurements have in their digests, the start of its plan's
    digest. `damage` names files by path, relative to the folder, with what is wrong with each; weights are
    only looked for, since whoever loads them verifies them.
    """

    folder: Path
    specification: Json
    plan: Json
    checkpoints: dict[int, Json]
    damage: dict[str, str]

    @property
    def run(self) -> str:
        """See above."""
        return run_name(self.folder, self.plan)

    def measurements(self, step: int) -> Measurements:
        """The run's measurements at a step."""
        return measurements_at(self.folder, self.run, step)


def read_run_folder(folder: Path) -> RunFolder:
    """Read and verify everything that describes the run in a folder; never raises for damage.

    Of a folder that holds another run than it is named for, nothing is read: its `damage` has the name "".
    """
    if what := holds_another(folder):
        return RunFolder(folder, {}, {}, {}, {"": what})
    damage: dict[str, str] = {}
    plan = _plan(folder, damage)
    specification = _object(folder, SPECIFICATION_FILE, damage)
    if not specification and (folder / SPECIFICATION_FILE).exists():
        damage.setdefault(SPECIFICATION_FILE, "is not what was written")
    finished = {each["step"]: each for each in _finished(folder, run_name(folder, plan), damage)}
    found = {int(path.name): _checkpoint(folder, path, damage) for path in checkpoint_folders(folder)}
    misplaced = set(_misplaced(folder, specification, plan, found or finished))
    if None in misplaced:
        damage[SPECIFICATION_FILE] = OF_ANOTHER_RUN
        specification = {}
    for step, path in ((int(path.name), path) for path in checkpoint_folders(folder)):
        if step in misplaced:
            damage[f"{STEPS_FOLDER}/{path.name}/{RECORD_FILE}"] = OF_ANOTHER_RUN
            found[step] = {}
    known = _measured(folder, before=max(found, default=0)) | finished | found
    return RunFolder(folder, specification, plan, dict(sorted(known.items())), damage)


def write_finished(folder: Path, checkpoints: list[Json], run: str) -> None:
    """Write what the checkpoints of a run recorded, in place of the checkpoints."""
    write_sealed(folder / FINISHED_FILE, {"checkpoints": checkpoints}, run)


def is_finished(folder: Path, run: str) -> bool:
    """Whether the folder has the intact records of the run's checkpoints, in place of the checkpoints."""
    return bool(_finished(folder, run, {}))


def run_name(folder: Path, plan: Json) -> str:
    """The start of the plan's digest: the folder's name, unless the folder is a copy."""
    return str(plan.get("digest", folder.name))[:16]


def _finished(folder: Path, run: str, damage: dict[str, str]) -> list[Json]:
    if not (folder / FINISHED_FILE).exists():
        return []
    try:
        return known_checkpoints(read_sealed(folder / FINISHED_FILE, run)["checkpoints"])
    except (Damaged, KeyError, TypeError, AttributeError):
        damage[FINISHED_FILE] = "is not what was written: which checkpoints the run has had is not known"
        return []


def _measured(folder: Path, before: int) -> dict[int, Json]:
    """The steps before another that have been measured: a checkpoint may have been deleted since."""
    steps = (int(path.name) for path in (folder / MEASURED_FOLDER).glob("*") if path.name.isdecimal())
    return {step: {"step": step} for step in steps if step < before}


def _checkpoint(folder: Path, path: Path, damage: dict[str, str]) -> Json:
    place = f"{STEPS_FOLDER}/{path.name}"
    content = _object(folder, f"{place}/{RECORD_FILE}", damage)
    if content.get("step", int(path.name)) != int(path.name):
        damage[f"{place}/{RECORD_FILE}"] = f"is that of step {content['step']}"
        return {}
    for name in content.get("files", {}):
        if not (path / name).exists():
            damage[f"{place}/{name}"] = "is missing"
    return content


def _misplaced(
    folder: Path, specification: Json, plan: Json, checkpoints: dict[int, Json]
) -> Iterator[int | None]:
    """The steps of those checkpoints that are not of the run, and None if its specification is not.

    The run is that of the plan if one of them is; a run that goes on from another has a plan of another
    digest, and is what most of them say that may be of the plan.
    """
    digests: dict[int | None, str] = {
        step: str(each["specification_digest"])
        for step, each in checkpoints.items()
        if "specification_digest" in each
    }
    if specification:
        digests |= {None: json_digest(specification)}
    counted = Counter(digests.values())
    if specification and contradicts_plan(folder, plan, specification):
        del counted[digests[None]]
    planned = str(plan.get("digest"))
    right = planned if planned in counted else next((digest for digest, _ in counted.most_common(1)), None)
    yield from (place for place, digest in digests.items() if digest != right)


def _plan(folder: Path, damage: dict[str, str]) -> Json:
    """The run's plan; empty if it has none, or another run's."""
    if not (folder / PLAN_FILE).exists():
        return {}
    plan = _object(folder, PLAN_FILE, damage)
    known = all(
        isinstance(each, dict)
        and isinstance(each.get("measured_on"), str)
        and isinstance(each.get("quantity"), dict)
        and isinstance(each["quantity"].get("revision", 1), int)
        and isinstance(each.get("steps"), list)
        and all(isinstance(step, int) for step in each["steps"])
        for each in plan.get("measured", [])
    )
    if not known or not may_be_named(folder, str(plan.get("digest", folder.name))):
        damage[PLAN_FILE] = OF_ANOTHER_RUN if known else "is not what was written"
        return {}
    language = plan.get("language")
    if isinstance(language, dict) and "sha256" in language:
        file = folder / str(language.get("file"))
        if not file.is_file() or file_digest(file) != language["sha256"]:
            damage[file.name] = "is not what was written"
    return plan


def _object(folder: Path, place: str, damage: dict[str, str]) -> Json:
    """A file's JSON object; empty if it is not one."""
    path = folder / place
    try:
        content: Json = read_sealed(path, path.name)
    except Damaged as error:
        cause = error.__cause__
        reason = (cause.strerror if isinstance(cause, OSError) else cause) or "it is not what was written"
        damage[place] = f"cannot be read ({reason})"
        return {}
    if not _has_known_types(content):
        damage[place] = "is not what was written"
        return {}
    return content


def known_checkpoints(checkpoints: list[Json]) -> list[Json]:
    """The records of checkpoints. Raises an exception of any kind for what readers do not expect in them."""
    if not all(isinstance(each["step"], int) and _has_known_types(each) for each in checkpoints):
        raise TypeError("a checkpoint has no step, or its numbers are none")
    return checkpoints


def _has_known_types(content: Json) -> bool:
    """Whether the values that readers access are of the types that they have."""
    known = all(isinstance(content[key], kind) for key, kind in _KINDS.items() if key in content)
    return known and all(isinstance(value, int | float) for value in content.get("readings", {}).values())
