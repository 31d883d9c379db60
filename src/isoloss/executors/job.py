"""Jobs: what an executor does somewhere, what it tells on its way, and in which order they are done."""

import pickle
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from isoloss.errors import BadInput, FolderHeld, IsolossError
from isoloss.progress import Progress, silent

HOLD_SECONDS = 300.0
"""How long a lost machine's hold on a folder is waited for. A file server ends the locks of a machine that
it no longer hears after a lease (90 seconds with Linux's NFS), and a Ray node that is cut off stops its own
work after about a minute; twice both together."""
_PAUSE_SECONDS = 2.0
Work = Callable[[Progress], Sequence[str]]
"""Reports how much of the whole job is done; returns what the user should be told, a sentence each."""


@dataclass(frozen=True)
class Job:
    """One piece of work: picklable, resumable, and its share of the whole.

    The task that `work` names in its reports is its present stage. A job begins when the job named `after`
    has ended well, and fails where that failed. `name` is unique among the jobs done together. `key` tells,
    with the name, this work from any other, in whatever process it is made; the pickled work does where it
    is empty, which may be other bytes in another process.
    """

    name: str
    work: Work
    cost: float
    after: str | None = None
    key: str = ""


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
class Advanced:
    """A running job has done `completed` of `total`; `text` is its stage in words."""

    job: str
    completed: float
    total: float
    text: str


@dataclass(frozen=True)
class Ended:
    """A job has ended: well, or with a `failure`, a sentence or a traceback."""

    job: str
    notices: tuple[str, ...] = ()
    failure: str | None = None


def do(job: str, pickled: bytes, progress: Progress) -> Ended:
    """Do a job's pickled work in the process at hand; whatever it raises is its failure.

    >>> do("five", pickle.dumps(int), print).failure.splitlines()[-1].split(":")[0]
    'TypeError'
    """
    try:
        work: Work = pickle.loads(pickled)
        return Ended(job, tuple(work(progress)))
    except IsolossError as error:
        return Ended(job, failure=str(error))
    except Exception:
        return Ended(job, failure="an unexpected error, please report it:\n" + traceback.format_exc())


def stage(task: str, message: str) -> str:
    """A progress report's task and message as one text.

    >>> stage("pre-training", "loss 2.1"), stage("done", "")
    ('pre-training: loss 2.1', 'done')
    """
    return f"{task}: {message}" if message else task


class Patiently:
    """Work that begins anew while another process holds its folder, for `seconds` at most.

    Only work that keeps what it has done may be begun anew: jobs are such (see `Job`).
    """

    def __init__(self, work: Work, seconds: float = HOLD_SECONDS) -> None:
        self._work, self._seconds = work, seconds

    def __call__(self, progress: Progress) -> list[str]:
        """Do the work. Raises FolderHeld where the folder is still held when patience is over."""
        until = time.monotonic() + self._seconds
        while True:
            try:
                return list(self._work(progress))
            except FolderHeld as error:
                if time.monotonic() >= until:
                    raise
                progress("waiting", 0.0, 1.0, str(error))
                time.sleep(min(_PAUSE_SECONDS, self._seconds))


class Schedule:
    """Which job may begin next, what fails with one that failed, and how far all have come; does nothing.

    The most expensive job that may begin is the next. Raises BadInput where two jobs have one name.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = {job.name: job for job in jobs}
        if len(self._jobs) < len(jobs):
            raise BadInput("two jobs have one name; name each for what it does")
        self._waiting = sorted(jobs, key=lambda job: job.cost, reverse=True)
        self._fractions: dict[str, float] = {}
        self._ended: dict[str, Ended] = {}
        self._give_up_what_cannot_begin()

    @property
    def finished(self) -> bool:
        """Whether every job has ended."""
        return len(self._ended) == len(self._jobs)

    def take(self) -> Job | None:
        """The next job, which the caller begins now; None while each that waits needs one that runs."""
        for job in self._waiting:
            if job.after is None or job.after in self._ended:
                self._waiting.remove(job)
                return job
        return None

    def advance(self, event: Advanced) -> None:
        """A running job has come so far."""
        self._fractions[event.job] = min(1.0, event.completed / event.total) if event.total else 0.0

    def end(self, event: Ended) -> None:
        """A running job has ended, and with it, if it failed, those that need it."""
        self._ended[event.job] = event
        self._give_up_what_cannot_begin()

    @property
    def share(self) -> float:
        """How much of all the jobs' cost is done."""
        total = sum(job.cost for job in self._jobs.values()) or 1.0
        done = sum(self._jobs[name].cost for name in self._ended)
        running = {name: share for name, share in self._fractions.items() if name not in self._ended}
        return (done + sum(share * self._jobs[name].cost for name, share in running.items())) / total

    @property
    def status(self) -> str:
        """How many jobs have ended, in words."""
        return f"{len(self._ended)} of {len(self._jobs)} runs done"

    @property
    def outcome(self) -> Outcome:
        """What those that have ended tell, in the order in which they did."""
        ended = self._ended.values()
        return Outcome(
            tuple(Notice(event.job, event.failure) for event in ended if event.failure),
            tuple(Notice(event.job, text) for event in ended for text in event.notices),
        )

    def _give_up_what_cannot_begin(self) -> None:
        while lost := [job for job in self._waiting if job.after and self._is_lost(job.after)]:
            for job in lost:
                self._ended[job.name] = Ended(job.name, failure=f"it needs “{job.after}”, which failed")
                self._waiting.remove(job)

    def _is_lost(self, name: str) -> bool:
        """Whether a job failed, or is not among the jobs."""
        return name not in self._jobs or (name in self._ended and self._ended[name].failure is not None)


@runtime_checkable
class Backend(Protocol):
    """Where jobs are done."""

    @property
    def has_room(self) -> bool:
        """Whether one more job may be begun now."""
        ...

    def begin(self, job: Job) -> None:
        """Begin a job; what becomes of it is told by `events`."""
        ...

    def events(self) -> Iterable[Advanced | Ended]:
        """What has happened since the last call; waits a second or so where nothing has."""
        ...

    def stop(self) -> None:
        """Stop at once whatever still runs, and let go of the place."""
        ...


def do_jobs(jobs: Sequence[Job], backend: Backend, progress: Progress = silent) -> Outcome:
    """Do all jobs at a backend, which is stopped at the end, however it comes."""
    schedule = Schedule(jobs)
    try:
        while not schedule.finished:
            while backend.has_room and (job := schedule.take()):
                backend.begin(job)
            for event in backend.events():
                if isinstance(event, Ended):
                    schedule.end(event)
                else:
                    schedule.advance(event)
                    progress(event.job, event.completed, event.total, event.text)
            progress("all runs", schedule.share, 1.0, schedule.status)
    finally:
        backend.stop()
    return schedule.outcome
