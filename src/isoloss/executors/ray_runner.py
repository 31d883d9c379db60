"""Runs on the machines of a Ray cluster: if a machine is lost, its runs continue on another."""

import logging
import os
import pickle
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from isoloss.errors import BadInput, IsolossError
from isoloss.executors.job import (
    Advanced,
    Ended,
    Job,
    Outcome,
    do,
    do_jobs,
    last_line,
    reports,
    retried_while_held,
)
from isoloss.progress import Progress, silent

MOST_BEGINNINGS = 5
"""How often a job is started before it fails: one that kills each of its processes must end at some point."""

SECONDS_BETWEEN_REPORTS = 0.5


@dataclass(frozen=True)
class ShareOfNode:
    """What Ray reserves for a job on its node: processor cores, as many threads, and GPUs.

    A run's last bits depend on its number of threads: with one, they equal those of `run_jobs`.
    """

    cores: int = 1
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.cores < 1 or self.gpus < 0:
            raise BadInput(
                f"a job needs at least one core and no fewer than 0 GPUs, not {self.cores}, {self.gpus}"
            )


def run_jobs_on_ray(
    jobs: Sequence[Job],
    progress: Progress = silent,
    *,
    address: str | None = None,
    share: ShareOfNode = ShareOfNode(),
) -> Outcome:
    """Do all `jobs` on the Ray cluster at `address`, or on the one that this machine belongs to.

    `address` is HOST:PORT of the cluster's head. Arguments as in `run_jobs`, except that Ray decides where
    and how many run at once. A job whose process or node is lost is restarted, on another node if need be,
    and this is reported; being resumable, it continues from its last checkpoint. A node that is only cut off
    stops its own work within about a minute; until then, the restarted job waits for its lock on the run's
    folder. On KeyboardInterrupt all jobs are stopped at once.

    Every node needs this package, and this folder and the jobs' files under the same paths: a shared file
    system. Raises IsolossError if Ray is not installed or no cluster answers.
    """
    with _joined(address):
        return do_jobs(jobs, _RayTasks(share), progress)


class _Reports:
    """The latest reports of running jobs, in a separate process beside the caller's."""

    def __init__(self) -> None:
        self._latest: dict[str, Advanced] = {}

    def post(self, report: Advanced) -> None:
        self._latest[report.job] = report

    def take(self) -> list[Advanced]:
        latest, self._latest = list(self._latest.values()), {}
        return latest


class _RayTasks:
    """A `Backend` with one Ray task per job, each in its own process."""

    def __init__(self, share: ShareOfNode) -> None:
        ray = _ray()
        _refuse_too_large(share, ray.nodes())
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._ray, self._share = ray, share
        self._reports = ray.remote(_Reports).options(num_cpus=0, scheduling_strategy=here).remote()
        # Restarted here and not by Ray, so that it is counted and reported; one process per job, as locally.
        asked = {"num_cpus": share.cores, "num_gpus": share.gpus, "max_retries": 0, "max_calls": 1}
        self._task = ray.remote(**asked)(_work)
        self._running: dict[Any, Job] = {}
        self._begun: Counter[str] = Counter()

    has_room = True  # jobs for which no node is free wait in Ray's queue

    def begin(self, job: Job) -> None:
        self._begun[job.name] += 1
        arguments = (
            job.name,
            pickle.dumps(partial(retried_while_held, job.work)),
            str(Path.cwd()),
            self._share.cores,
            self._reports,
        )
        self._running[self._task.remote(*arguments)] = job

    def events(self) -> Iterator[Advanced | Ended]:
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=SECONDS_BETWEEN_REPORTS)
        running = {job.name for job in self._running.values()}
        # Posts of a job's earlier process may arrive after its end.
        reports: list[Advanced] = self._ray.get(self._reports.take.remote())
        yield from (report for report in reports if report.job in running)
        for reference in ready:
            job = self._running.pop(reference)
            if (ended := self._ended(job.name, reference)) is None:
                self.begin(job)
                yield Advanced(job.name, 0.0, 1.0, "its node was lost; begun again")
            else:
                yield ended

    def stop(self) -> None:
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._ray.kill(self._reports)

    def _ended(self, name: str, reference: Any) -> Ended | None:
        """How a job has ended; None if its process or node was lost and it may be restarted."""
        errors = self._ray.exceptions
        times = self._begun[name]
        try:
            ended: Ended = self._ray.get(reference)
        except errors.RayTaskError as error:
            return Ended(name, failure=f"the node cannot do it: {last_line(error)}; install isoloss there")
        except errors.RayError as error:
            if times < MOST_BEGINNINGS:
                return None
            lost = f"its process or node was lost {times} times, last because: {last_line(error)}"
            return Ended(name, failure=f"{lost}; the same command goes on from its last checkpoint")
        if times == 1:
            return ended
        lost = f"its process or node was lost {times - 1} times; it went on from its last checkpoint"
        return replace(ended, notices=(lost, *ended.notices))


def _work(job: str, pickled: bytes, folder: str, threads: int, posts: Any) -> Ended:
    """Runs in a process on a node of the cluster."""
    try:
        os.chdir(folder)  # paths may be relative to the caller's folder
    except OSError as error:
        return Ended(
            job,
            failure=f"the folder {folder} is not on the node {os.uname().nodename} ({error.strerror}); start "
            "from a folder that all nodes share",
        )
    torch.set_num_threads(threads)
    return do(job, pickled, reports(job, SECONDS_BETWEEN_REPORTS, posts.post.remote))


@contextmanager
def _joined(address: str | None) -> Iterator[None]:
    """Make this process part of the cluster, and leave it again unless the process was part before."""
    ray = _ray()
    if ray.is_initialized():
        yield
        return
    try:
        if address is not None:
            _reach(address)
        ray.init(address=address or "auto", log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        where = f"at {address}" if address else "on this machine"
        raise IsolossError(
            f"no Ray cluster answers {where} ({last_line(error)}); start one with `ray start --head`, "
            "or give its address"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """Connect with one attempt, since Ray itself keeps trying for minutes."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host, int(port)), timeout=5.0).close()


def _refuse_too_large(share: ShareOfNode, nodes: Sequence[Mapping[str, Any]]) -> None:
    """Raise BadInput if no node could ever take a job, for which Ray would wait silently."""
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    if not any(each.get("CPU", 0) >= share.cores and each.get("GPU", 0) >= share.gpus for each in alive):
        raise BadInput(
            f"no node of the Ray cluster has {share.cores} cores and {share.gpus:g} GPUs; ask for less, or "
            "add such a node first"
        )


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise IsolossError(
            "runs on a Ray cluster need the package ray; pip install 'isoloss[ray]'"
        ) from error
    return ray
