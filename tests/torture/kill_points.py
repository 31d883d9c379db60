"""Kills before every file operation of a task, which is then repeated: nothing may be lost.

The work runs in children forked from one process that has imported everything. A child counts its operations
that change files (opening to write, renaming, removing, making folders, `fsync`), and kills itself with
SIGKILL before the k-th.
"""

import hashlib
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

Work = Callable[[Path], object]
"""Work in a folder that resumes where it was stopped."""

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True)
class Scenario:
    """Work that is killed; `same` says which files of a folder must come out with the same bytes."""

    name: str
    work: Work
    same: Callable[[Path], bool]


@dataclass(frozen=True)
class Kill:
    """One kill: before which operation, and what was wrong with the final result, if anything."""

    scenario: str
    point: int
    wrong: str | None


def in_child(work: Callable[[], object]) -> int:
    """Do the work in a forked child; its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class _Operations:
    """Counts this process's operations on files below a folder, and kills it before one of them."""

    def __init__(self, folder: Path, deadly: int | None) -> None:
        self.below, self.deadly, self.count = str(folder.resolve()), deadly, 0
        fsync = os.fsync

        def counted(handle: int) -> None:
            self._one()
            fsync(handle)

        os.fsync = counted
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in CHANGES or (event == "open" and self._writes(arguments)):
            path = arguments[0]
            if isinstance(path, str | os.PathLike) and str(Path(path).absolute()).startswith(self.below):
                self._one()

    @staticmethod
    def _writes(arguments: tuple[Any, ...]) -> bool:
        _, mode, flags = arguments
        return bool(set(mode or "") & set("wax+")) or bool(isinstance(flags, int) and flags & WRITING)

    def _one(self) -> None:
        self.count += 1
        if self.count == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)


def operations_of(scenario: Scenario, folder: Path) -> int:
    """Do the work uninterrupted in the folder; returns the number of its file operations.

    What it imports on its way is then imported here too, so that no child takes time for that.
    """
    folder.mkdir(parents=True, exist_ok=True)
    told = folder.with_suffix(".count")

    def counted() -> None:
        operations = _Operations(folder, None)
        scenario.work(folder)
        told.write_text("\n".join([str(operations.count), *sys.modules]))

    if in_child(counted):
        raise RuntimeError(f"{scenario.name} fails undisturbed")
    count, *modules = told.read_text().splitlines()
    for module in modules:
        with suppress(Exception):
            import_module(module)
    return int(count)


def kills(scenario: Scenario, place: Path, points: Iterator[int], undisturbed: Path) -> Iterator[Kill]:
    """Kill before each of these operations, finish the work, and compare with the uninterrupted result."""
    wanted = contents(undisturbed, scenario)
    folder = place / "work"
    for point in points:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

        def deadly(point: int = point) -> None:
            kill_before(folder, point)
            scenario.work(folder)

        code = in_child(deadly)
        if code != -signal.SIGKILL:
            yield Kill(scenario.name, point, None if code == 0 else "it failed before it was killed")
            continue
        again = in_child(lambda: scenario.work(folder))
        yield Kill(scenario.name, point, what_is_wrong(again, contents(folder, scenario), wanted))


def kill_before(folder: Path, point: int) -> None:
    """Make this process kill itself before its operation of that number on files below a folder."""
    _Operations(folder, point)


def what_is_wrong(code: int, found: dict[str, str], wanted: dict[str, str]) -> str | None:
    """What of work that was killed and done again is not as undisturbed, or None; `code` is its exit code."""
    if code:
        return f"done again it ends with {code}"
    if lost := sorted(set(wanted) - set(found)):
        return f"{lost[0]} is lost"
    if left := sorted(set(found) - set(wanted)):
        return f"{left[0]} is left over"
    other = [name for name in wanted if found[name] != wanted[name]]
    return f"{other[0]} is other" if other else None


def contents(folder: Path, scenario: Scenario) -> dict[str, str]:
    """The names of all files of a folder, with the digest of those that must be bitwise the same."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))
    return {
        path.relative_to(folder).as_posix(): (
            hashlib.sha256(path.read_bytes()).hexdigest() if scenario.same(path) else ""
        )
        for path in files
    }
