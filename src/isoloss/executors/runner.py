"""Runs side by side on this machine's cores: if one fails, the others continue."""

import ctypes
import os
import pickle
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from threading import current_thread, main_thread

import torch

from isoloss.executors.job import Advanced, Ended, Job, Outcome, do, do_jobs, reports
from isoloss.progress import Progress, silent

_CONTEXT = get_context("forkserver")
# Imported once in the server from which children are forked: each child then starts in milliseconds.
_CONTEXT.set_forkserver_preload(
    [
        "torch",
        "transformers.models.bert.modeling_bert",
        "transformers.models.roberta_prelayernorm.modeling_roberta_prelayernorm",
    ]
)

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""The numbers of glibc's two thresholds, from its malloc.h."""

SECONDS_BETWEEN_REPORTS = 0.1
"""A probe reports every epoch, and the parent that reads the reports shares the cores with its jobs."""


def run_jobs(jobs: Sequence[Job], processes: int, progress: Progress = silent) -> Outcome:
    """Do all `jobs`, at most `processes` at once, the most expensive first.

    Each job has its own process with one thread, so that its numbers do not depend on how many run beside it.
    If a process is killed from outside, its job has failed. On KeyboardInterrupt the running jobs are stopped
    at once; being resumable, they lose only the work since their last save.
    """
    if jobs:  # the server takes seconds to import what it preloads
        _begin_server()
    return do_jobs(jobs, LocalProcesses(processes), progress)


def _begin_server() -> None:
    """Start the server from which jobs are forked, deaf to Ctrl-C, which reaches the whole process group.

    Only the parent responds to it, even while the server is importing its preloaded modules.
    """
    if current_thread() is not main_thread():  # only the main thread may set signal handlers
        return
    answered = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, answered)


@dataclass
class _Running:
    process: ForkServerProcess
    connection: Connection
    ended: Ended | None = None


class LocalProcesses:
    """A `Backend` with one process per job, at most `processes` at once and at least one."""

    def __init__(self, processes: int) -> None:
        self._processes = max(processes, 1)
        self._running: dict[str, _Running] = {}

    @property
    def has_room(self) -> bool:
        return len(self._running) < self._processes

    def begin(self, job: Job) -> None:
        receiver, sender = _CONTEXT.Pipe(duplex=False)
        # By value: torch would send a file descriptor per tensor, and a process may send only a few.
        arguments = (job.name, pickle.dumps(job.work), sender)
        process = _CONTEXT.Process(target=_work, args=arguments, name=job.name, daemon=True)
        process.start()
        sender.close()
        self._running[job.name] = _Running(process, receiver)

    def events(self) -> Iterator[Advanced | Ended]:
        entries = self._running.values()
        ready = wait([e.connection for e in entries] + [e.process.sentinel for e in entries], timeout=1.0)
        for name, entry in list(self._running.items()):
            alive = entry.process.is_alive()  # asked first: what it sent before its end has then arrived
            if entry.connection in ready or not alive:
                yield from _received(entry)
            if not alive:
                del self._running[name]
                yield _result(name, entry)

    def stop(self) -> None:
        for entry in self._running.values():
            entry.process.kill()
            entry.process.join()


def _work(job: str, pickled: bytes, sender: Connection) -> None:
    # Ctrl-C reaches the whole process group; only the parent responds, and then stops this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    keep_freed_memory()

    def send(report: Advanced) -> None:
        try:
            sender.send(report)
        except OSError:  # the parent is gone: nobody will receive the result
            os._exit(1)

    sender.send(do(job, pickled, reports(job, SECONDS_BETWEEN_REPORTS, send)))


def keep_freed_memory() -> None:
    """Let this process reuse the memory of freed tensors of up to 32 MiB, not return it to the system.

    A small model's operations allocate such tensors anew each time, and the system clears every page that it
    hands out for them (`benchmarks/README.md` has what that costs). C libraries other than
    glibc are left as they are.
    """
    allocator = getattr(ctypes.CDLL(None), "mallopt", None)
    if allocator is not None:
        allocator(_MMAP_THRESHOLD, 32 << 20)
        allocator(_TRIM_THRESHOLD, 1 << 30)


def _received(entry: _Running) -> Iterator[Advanced]:
    try:
        while entry.connection.poll():
            message = entry.connection.recv()
            if isinstance(message, Ended):
                entry.ended = message
            else:
                yield message
    except EOFError:
        entry.process.join()


def _result(job: str, entry: _Running) -> Ended:
    entry.process.join()
    code = entry.process.exitcode
    entry.connection.close()
    if entry.ended is not None:
        return entry.ended
    how = f"was killed ({signal.Signals(-code).name})" if code and code < 0 else f"ended with code {code}"
    return Ended(job, failure=f"its process {how}; the same command goes on from its last checkpoint")
