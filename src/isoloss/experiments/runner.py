"""Runs side by side on this machine's cores: when one fails, the others go on."""

import os
import pickle
import signal
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess

import torch

from isoloss.errors import IsolossError
from isoloss.progress import Progress, silent

_CONTEXT = get_context("forkserver")
# Imported once in the server that children are forked from: each child then starts in milliseconds.
_CONTEXT.set_forkserver_preload(["isoloss.experiments.preload"])


@dataclass(frozen=True)
class Job:
    """One piece of work: picklable, resumable, and its share of the whole.

    What `work` reports is how much of the whole job is done; the task it names is its present stage. It
    returns what the user should be told, a sentence each. It begins when the job named `after` has ended
    well, and fails where that failed.
    """

    name: str
    work: Callable[[Progress], Sequence[str]]
    cost: float
    after: str | None = None


@dataclass(frozen=True)
class Notice:
    """A sentence about a job that the user should read."""

    job: str
    text: str


@dataclass(frozen=True)
class Outcome:
    """What is to be told once all jobs have ended: those that failed and why, and what others noticed."""

    failures: tuple[Notice, ...]
    notices: tuple[Notice, ...]


@dataclass(frozen=True)
class _Ended:
    """The last message of a job's process."""

    notices: tuple[str, ...] = ()
    failure: str | None = None


@dataclass
class _Running:
    job: Job
    process: ForkServerProcess
    connection: Connection
    fraction: float = 0.0
    ended: _Ended | None = None


def run_jobs(jobs: Sequence[Job], processes: int, progress: Progress = silent) -> Outcome:
    """Do all `jobs`, at most `processes` at once, the most expensive first.

    Each job has a process of its own with one thread, so that its numbers do not depend on how many run
    beside it. A process that is killed from outside counts as that job's failure. On KeyboardInterrupt
    the running jobs are stopped at once; being resumable, they lose only what follows their last save.
    """
    waiting = sorted(jobs, key=lambda job: job.cost, reverse=True)
    running: list[_Running] = []
    ended: dict[str, _Ended] = {}
    total = sum(job.cost for job in jobs) or 1.0
    try:
        while waiting or running:
            ended |= _without_what_they_need(waiting, ended, {job.name for job in jobs})
            waiting = [job for job in waiting if job.name not in ended]
            while len(running) < max(processes, 1) and (job := _next(waiting, ended)):
                waiting.remove(job)
                running.append(_start(job))
            _receive(running, progress)
            for entry in [entry for entry in running if not entry.process.is_alive()]:
                _receive_from(entry, progress)
                running.remove(entry)
                ended[entry.job.name] = _result(entry)
            done = sum(job.cost for job in jobs if job.name in ended)
            ahead = done + sum(entry.fraction * entry.job.cost for entry in running)
            progress("all runs", ahead / total, 1.0, f"{len(ended)} of {len(jobs)} runs done")
    finally:
        for entry in running:
            entry.process.kill()
            entry.process.join()
    return Outcome(
        tuple(Notice(name, result.failure) for name, result in ended.items() if result.failure),
        tuple(Notice(name, text) for name, result in ended.items() for text in result.notices),
    )


def _next(waiting: Sequence[Job], ended: Mapping[str, _Ended]) -> Job | None:
    """The first job that may begin."""
    well = {name for name, result in ended.items() if not result.failure}
    return next((job for job in waiting if job.after is None or job.after in well), None)


def _without_what_they_need(
    waiting: Sequence[Job], ended: Mapping[str, _Ended], names: set[str]
) -> dict[str, _Ended]:
    """The jobs that cannot begin, because the one before them failed or is not among the jobs."""
    return {
        job.name: _Ended(failure=f"it needs “{job.after}”, which failed")
        for job in waiting
        if job.after and (job.after not in names or (job.after in ended and ended[job.after].failure))
    }


def _start(job: Job) -> _Running:
    receiver, sender = _CONTEXT.Pipe(duplex=False)
    # By value: torch would hand over a file descriptor for each tensor, of which a process may send few.
    work = pickle.dumps(job.work)
    process = _CONTEXT.Process(target=_work, args=(work, sender), name=job.name, daemon=True)
    process.start()
    sender.close()
    return _Running(job, process, receiver)


def _work(pickled: bytes, sender: Connection) -> None:
    # Ctrl-C reaches the whole process group; only the parent answers it, and then stops this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)

    def report(task: str, completed: float, total: float, message: str = "") -> None:
        try:
            sender.send((completed, total, f"{task}: {message}" if message else task))
        except OSError:  # the parent is gone: nobody will take the result
            os._exit(1)

    try:
        work: Callable[[Progress], Sequence[str]] = pickle.loads(pickled)
        sender.send(_Ended(tuple(work(report))))
    except IsolossError as error:
        sender.send(_Ended(failure=str(error)))
    except Exception:
        sender.send(_Ended(failure="an unexpected error, please report it:\n" + traceback.format_exc()))


def _receive(running: Sequence[_Running], progress: Progress) -> None:
    sources = [entry.connection for entry in running] + [entry.process.sentinel for entry in running]
    ready = wait(sources, timeout=1.0)
    for entry in running:
        if entry.connection in ready:
            _receive_from(entry, progress)


def _receive_from(entry: _Running, progress: Progress) -> None:
    try:
        while entry.connection.poll():
            message = entry.connection.recv()
            if isinstance(message, _Ended):
                entry.ended = message
            else:
                completed, total, text = message
                entry.fraction = min(1.0, completed / total) if total else 0.0
                progress(entry.job.name, completed, total, text)
    except EOFError:
        entry.process.join()


def _result(entry: _Running) -> _Ended:
    entry.process.join()
    code = entry.process.exitcode
    entry.connection.close()
    if entry.ended is not None:
        return entry.ended
    how = f"was killed ({signal.Signals(-code).name})" if code and code < 0 else f"ended with code {code}"
    return _Ended(failure=f"its process {how}; the same command goes on from its last checkpoint")
