"""Kills of a process of a Ray node on this machine, started by Ray itself, if ray is installed."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from kill_points import Kill, Scenario, contents, in_child, kill_before, what_is_wrong
from scenarios import run_of_a_node

from isoloss.executors.job import Job
from isoloss.executors.ray_runner import run_jobs_on_ray
from isoloss.progress import Progress, silent

RAY = "Ray node"
"""The name of the scenario."""


def has_ray() -> bool:
    """Whether Ray is available for a node."""
    return importlib.util.find_spec("ray") is not None


def kills_on_ray(scenario: Scenario, place: Path, points: Iterator[int], undisturbed: Path) -> Iterator[Kill]:
    """Kill Ray's process before each of these operations; Ray's runner restarts it by itself.

    Each time in a child with a node of its own: what starts Ray must not be forked after.
    """
    wanted = contents(undisturbed, scenario)
    folder = place / "work"
    for point in points:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        killed = place / "killed"
        killed.unlink(missing_ok=True)
        code = in_child(lambda point=point, killed=killed: _on_a_node(folder, point, killed))
        wrong = what_is_wrong(code, contents(folder, scenario), wanted)
        yield Kill(scenario.name, point, wrong if killed.exists() else wrong or "it was never begun")


def _on_a_node(folder: Path, point: int, killed: Path) -> None:
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    import ray

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    job = Job("run", partial(_killed_once, folder, point, killed), 1.0)
    outcome = run_jobs_on_ray([job], silent)
    ray.shutdown()
    if outcome.failures:
        raise RuntimeError(outcome.failures[0].text)


def _killed_once(folder: Path, point: int, killed: Path, progress: Progress) -> list[str]:
    """The run, in Ray's process: the first is killed before an operation, the next is not."""
    if not killed.exists():
        killed.touch()
        kill_before(folder, point)
    return run_of_a_node(folder)(progress)
