"""What describes a run in its folder, verified, and of this run: its specification, plan and checkpoints."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isoloss.errors import Damaged
from isoloss.files import file_digest
from isoloss.results.checkpoint import RECORD_FILE, SPECIFICATION_FILE, STEPS_FOLDER, checkpoint_folders
from isoloss.results.measurements import MEASURED_FOLDER, Measurements, measurements_at
from isoloss.results.record import carries_digests
from isoloss.results.store import json_digest, read_sealed, write_sealed

PLAN_FILE, LOCK_FILE = "plan.json", ".lock"
FINISHED_FILE = "finished.json"
"""For runs whose records were unpacked, whose checkpoints are elsewhere: the checkpoints' own records."""

Json = dict[str, Any]
_KINDS: dict[str, type | tuple[type, ...]] = {
    "files": dict, "versions": dict, "readings": dict, "labels": dict, "measured": list, "steps": int,
    "training_loss": (int, float, type(None)),
}  # fmt: skip
"""The types of the values whose contents readers access."""


@dataclass(frozen=True)
class RunFolder:
    """The files that describe a run; what is damaged, missing or another run's is empty, and named.

    `checkpoints` are the checkpoints' own records by step, also those of an unpacked run that has none of its
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
        return _run_name(self.folder, self.plan)

    @property
    def damage_in_words(self) -> tuple[str, ...]:
        """A sentence for each damaged file."""
        return tuple(f"{self.folder / name} {what}" for name, what in self.damage.items())

    def measurements(self, step: int) -> Measurements:
        """The run's measurements at a step."""
        return measurements_at(self.folder, self.run, step)


def read_run_folder(folder: Path) -> RunFolder:
    """Read and verify everything that describes the run in a folder; never raises for damage."""
    damage: dict[str, str] = {}
    plan = _plan(folder, damage)
    specification = _object(folder, SPECIFICATION_FILE, damage)
    if not specification and (folder / SPECIFICATION_FILE).exists():
        damage.setdefault(SPECIFICATION_FILE, "is not what was written")
    finished = {each["step"]: each for each in _finished(folder, _run_name(folder, plan), damage)}
    found = {int(path.name): _checkpoint(folder, path, damage) for path in checkpoint_folders(folder)}
    misplaced = set(_misplaced(specification, plan, found or finished))
    if None in misplaced:
        damage[SPECIFICATION_FILE] = "is that of another run"
        specification = {}
    for step, path in ((int(path.name), path) for path in checkpoint_folders(folder)):
        if step in misplaced:
            damage[f"{STEPS_FOLDER}/{path.name}/{RECORD_FILE}"] = "is that of another run"
            found[step] = {}
    return RunFolder(folder, specification, plan, dict(sorted((finished | found).items())), damage)


def write_finished(folder: Path, checkpoints: list[Json], run: str) -> None:
    """Write what the checkpoints of a run recorded, in place of the checkpoints."""
    write_sealed(folder / FINISHED_FILE, {"checkpoints": checkpoints}, run)


def is_finished(folder: Path, run: str) -> bool:
    """Whether the folder has the intact records of the run's checkpoints, in place of the checkpoints."""
    return bool(_finished(folder, run, {}))


def is_older(folder: Path) -> bool:
    """Whether a run has records from an isoloss without digests: damage to them goes unnoticed."""
    files = folder.glob(f"{MEASURED_FOLDER}/*/*.jsonl")
    return any(path.stat().st_size and not carries_digests(path) for path in files)


def _run_name(folder: Path, plan: Json) -> str:
    return str(plan.get("digest", folder.name))[:16]


def _finished(folder: Path, run: str, damage: dict[str, str]) -> list[Json]:
    if not (folder / FINISHED_FILE).exists():
        return []
    try:
        found: list[Json] = read_sealed(folder / FINISHED_FILE, run)["checkpoints"]
        return [each for each in found if isinstance(each["step"], int)]
    except (Damaged, KeyError, TypeError):
        damage[FINISHED_FILE] = "is not what was written: which checkpoints the run has had is not known"
        return []


def _checkpoint(folder: Path, path: Path, damage: dict[str, str]) -> Json:
    place = f"{STEPS_FOLDER}/{path.name}"
    content = _object(folder, f"{place}/{RECORD_FILE}", damage)
    if not all(isinstance(value, int | float) for value in content.get("readings", {}).values()):
        damage[f"{place}/{RECORD_FILE}"] = "is not what was written"
        return {}
    if content.get("step", int(path.name)) != int(path.name):
        damage[f"{place}/{RECORD_FILE}"] = f"is that of step {content['step']}"
        return {}
    for name in content.get("files", {}):
        if not (path / name).exists():
            damage[f"{place}/{name}"] = "is missing"
    return content


def _misplaced(specification: Json, plan: Json, checkpoints: dict[int, Json]) -> Iterator[int | None]:
    """The steps of those checkpoints that are not of the run, and None if its specification is not.

    The run is that of the plan if one of them is; a run that goes on from another has a plan of another
    digest, and is what most of them say.
    """
    digests: dict[int | None, str] = {
        step: str(each["specification_digest"])
        for step, each in checkpoints.items()
        if "specification_digest" in each
    }
    if specification:
        digests |= {None: json_digest(specification)}
    counted = Counter(digests.values())
    if len(counted) > 1:
        planned = str(plan.get("digest"))
        right = planned if planned in counted else counted.most_common(1)[0][0]
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
    named = re.fullmatch("[0-9a-f]{16}", folder.name)  # a copy may have any name
    if not known or (named and str(plan.get("digest", named[0]))[:16] != named[0]):
        damage[PLAN_FILE] = "is not what was written" if not known else "is that of another run"
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
    if not all(isinstance(content[key], kind) for key, kind in _KINDS.items() if key in content):
        damage[place] = "is not what was written"
        return {}
    return content
