"""Runs on the machines of a Ray cluster: where one is lost, its runs go on on another."""

import logging
import os
import pickle
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from isoloss.errors import BadInput, IsolossError
from isoloss.executors.job import Advanced, Ended, Job, Outcome, Patiently, do, do_jobs, stage
from isoloss.progress import Progress, silent

MOST_BEGINNINGS = 5
"""How often a job is begun before it fails: one that kills each process it has must come to an end."""

SECONDS_BETWEEN_REPORTS = 0.5


@dataclass(frozen=True)
class ShareOfNode:
    """What Ray keeps for a job on its node: processor cores, as many threads, and GPUs.

    A run's last bits depend on its threads: with one they are those that `run_jobs` gives.
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
    """Do all `jobs` on the Ray cluster at `address`, or on that which this machine belongs to.

    `address` is HOST:PORT of the cluster's head. Means what `run_jobs` means, with Ray to say where and how
    many at once. A job whose process or node is lost is begun again, on another node if need be, and told
    of; being resumable it goes on from its last checkpoint. A node that is only cut off stops its own work
    within about a minute; until then its lock on the run's folder is waited for (`patience`). On
    KeyboardInterrupt all jobs are stopped at once.

    Every node needs this package, and this folder and the jobs' files under the same paths: a file system
    that they share. Raises IsolossError where Ray is not installed or no cluster answers.
    """
    with _joined(address):
        return do_jobs(jobs, _RayTasks(share), progress)


class _Reports:
    """What running jobs have reported last, in a process of its own beside the caller's."""

    def __init__(self) -> None:
        self._latest: dict[str, Advanced] = {}

    def post(self, report: Advanced) -> None:
        self._latest[report.job] = report

    def take(self) -> list[Advanced]:
        latest, self._latest = list(self._latest.values()), {}
        return latest


class _RayTasks:
    """A `Backend`: a Ray task a job, in a process of its own."""

    def __init__(self, share: ShareOfNode) -> None:
        ray = _ray()
        _refuse_too_large(share, ray.nodes())
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._ray, self._share = ray, share
        self._reports = ray.remote(_Reports).options(num_cpus=0, scheduling_strategy=here).remote()
        # Begun again here and not by Ray, so that it is counted and told; a process a job, as locally.
        asked = {"num_cpus": share.cores, "num_gpus": share.gpus, "max_retries": 0, "max_calls": 1}
        self._task = ray.remote(**asked)(_work)
        self._running: dict[Any, Job] = {}
        self._begun: Counter[str] = Counter()

    has_room = True  # what finds no free node waits in Ray's queue

    def begin(self, job: Job) -> None:
        """See `Backend`."""
        self._begun[job.name] += 1
        arguments = (
            job.name,
            pickle.dumps(Patiently(job.work)),
            str(Path.cwd()),
            self._share.cores,
            self._reports,
        )
        self._running[self._task.remote(*arguments)] = job

    def events(self) -> Iterator[Advanced | Ended]:
        """See `Backend`."""
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=SECONDS_BETWEEN_REPORTS)
        running = {job.name for job in self._running.values()}
        # What an earlier process of a job posted may come after its end.
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
        """See `Backend`."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._ray.kill(self._reports)

    def _ended(self, name: str, reference: Any) -> Ended | None:
        """How a job has ended; None where its process or its node was lost and it may be begun again."""
        errors = self._ray.exceptions
        times = self._begun[name]
        try:
            ended: Ended = self._ray.get(reference)
        except errors.RayTaskError as error:
            return Ended(name, failure=f"the node cannot do it: {_last_line(error)}; install isoloss there")
        except errors.RayError as error:
            if times < MOST_BEGINNINGS:
                return None
            lost = f"its process or node was lost {times} times, last because: {_last_line(error)}"
            return Ended(name, failure=f"{lost}; the same command goes on from its last checkpoint")
        if times == 1:
            return ended
        told = f"its process or node was lost {times - 1} times; it went on from its last checkpoint"
        return replace(ended, notices=(told, *ended.notices))


def _work(job: str, pickled: bytes, folder: str, threads: int, reports: Any) -> Ended:
    """In a process on a node of the cluster."""
    try:
        os.chdir(folder)  # paths may be relative to the caller's folder
    except OSError as error:
        return Ended(
            job,
            failure=f"the folder {folder} is not on the node {os.uname().nodename} ({error.strerror}); start "
            "from a folder that all nodes share",
        )
    torch.set_num_threads(threads)
    posted = 0.0

    def report(task: str, completed: float, total: float, message: str = "") -> None:
        nonlocal posted
        if (now := time.monotonic()) - posted >= SECONDS_BETWEEN_REPORTS:
            posted = now
            reports.post.remote(Advanced(job, completed, total, stage(task, message)))

    return do(job, pickled, report)


@contextmanager
def _joined(address: str | None) -> Iterator[None]:
    """Have this process be part of the cluster, which it leaves again unless it was part before."""
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
            f"no Ray cluster answers {where} ({_last_line(error)}); start one with `ray start --head`, "
            "or give its address"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """Connect once, since Ray itself tries for minutes."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host, int(port)), timeout=5.0).close()


def _refuse_too_large(share: ShareOfNode, nodes: Sequence[Mapping[str, Any]]) -> None:
    """Raise BadInput where no node could ever take a job: Ray would wait for one in silence."""
    kept = [node["Resources"] for node in nodes if node["Alive"]]
    if not any(each.get("CPU", 0) >= share.cores and each.get("GPU", 0) >= share.gpus for each in kept):
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


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
