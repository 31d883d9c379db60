"""Jobs: what an executor does, what it reports on the way, and in which order jobs are done."""

import math
import pickle
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from isoloss.errors import BadInput, FolderHeld, IsolossError, place_in_users_code
from isoloss.progress import Progress, silent

HOLD_SECONDS = 300.0
"""How long a lost machine's hold on a folder is waited for. A file server ends the locks of a machine that
it no longer hears after a lease (90 seconds with Linux's NFS), and a Ray node that is cut off stops its own
work after about a minute; twice both together."""
_PAUSE_SECONDS = 2.0
Work = Callable[[Progress], Sequence[str]]
"""Reports the completed share of the whole job; returns messages for the user, one sentence each."""


@dataclass(frozen=True)
class Job:
    """A unit of work: picklable, resumable, with its share of the total.

    The task that `work` names in its reports is its current stage. A job starts when the job named `after`
    has succeeded, and fails if that one failed. `name` is unique among jobs that are done together. `key`,
    together with the name, identifies the work whichever process creates it; if it is empty, the pickled work
    does, whose bytes may differ between processes.
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
    """Reported once all jobs have ended: those that failed and why, and what others noticed."""

    failures: tuple[Notice, ...]
    notices: tuple[Notice, ...]


@dataclass(frozen=True)
class Advanced:
    """A running job has done `completed` of `total`; `text` describes its stage."""

    job: str
    completed: float
    total: float
    text: str


@dataclass(frozen=True)
class Ended:
    """A job has ended: successfully, or with a `failure`, a sentence or a traceback."""

    job: str
    notices: tuple[str, ...] = ()
    failure: str | None = None


def do(job: str, pickled: bytes, progress: Progress) -> Ended:
    """Do a job's pickled work in this process; whatever it raises is its failure.

    >>> do("five", pickle.dumps(int), print).failure.splitlines()[-1].split(":")[0]
    'TypeError'
    """
    try:
        work: Work = pickle.loads(pickled)
        return Ended(job, tuple(work(progress)))
    except IsolossError as error:
        return Ended(job, failure=str(error))
    except Exception as error:
        if place := place_in_users_code(error):
            why = f"{type(error).__name__}: {last_line(error)}"
            return Ended(job, failure=f"{place}: {why}; mend it and run again")
        return Ended(job, failure="an unexpected error, please report it:\n" + traceback.format_exc())


def reports(job: str, seconds: float, send: Callable[[Advanced], None]) -> Progress:
    """Sends a job's progress, at most one report every `seconds`."""
    sent = -math.inf

    def report(task: str, completed: float, total: float, message: str = "") -> None:
        nonlocal sent
        if (now := time.monotonic()) - sent >= seconds:
            sent = now
            text = f"{task}: {message}" if message else task
            send(Advanced(job, completed, total, text))

    return report


def last_line(error: Exception) -> str:
    """The last line of an error's message, or its type.

    >>> last_line(ValueError("a trace" + chr(10) + "of lines")), last_line(ValueError())
    ('of lines', 'ValueError')
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def retried_while_held(work: Work, progress: Progress, seconds: float = HOLD_SECONDS) -> Sequence[str]:
    """Do work, again and again for at most `seconds` while another process holds its folder.

    Only work that keeps what it has finished may be retried, as jobs do (see `Job`). Raises FolderHeld if the
    folder is still held after that time.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return work(progress)
        except FolderHeld as error:
            if time.monotonic() >= until:
                raise
            progress("waiting", 0.0, 1.0, str(error))
            time.sleep(min(_PAUSE_SECONDS, seconds))


class Schedule:
    """Which job may start next, which jobs fail with another, and the overall progress; runs nothing itself.

    The most expensive job that may start is the next. Raises BadInput if two jobs have the same name, or if
    jobs wait for each other.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = {job.name: job for job in jobs}
        if len(self._jobs) < len(jobs):
            raise BadInput("two jobs have one name; name each for what it does")
        self._refuse_circle()
        self._waiting = sorted(jobs, key=lambda job: job.cost, reverse=True)
        self._fractions: dict[str, float] = {}
        self._ended: dict[str, Ended] = {}
        self._give_up_what_cannot_begin()

    @property
    def finished(self) -> bool:
        """Whether every job has ended."""
        return len(self._ended) == len(self._jobs)

    def take(self) -> Job | None:
        """The next job, which the caller must start now; None while every waiting job needs a running one."""
        for job in self._waiting:
            if job.after is None or job.after in self._ended:
                self._waiting.remove(job)
                return job
        return None

    def advance(self, event: Advanced) -> None:
        """Note a running job's progress."""
        self._fractions[event.job] = min(1.0, event.completed / event.total) if event.total else 0.0

    def end(self, event: Ended) -> None:
        """Note the end of a running job, and the failure of those that need it if it failed."""
        self._ended[event.job] = event
        self._give_up_what_cannot_begin()

    @property
    def share(self) -> float:
        """The completed share of all the jobs' cost."""
        total = sum(job.cost for job in self._jobs.values()) or 1.0
        done = sum(self._jobs[name].cost for name in self._ended)
        running = {name: share for name, share in self._fractions.items() if name not in self._ended}
        return (done + sum(share * self._jobs[name].cost for name, share in running.items())) / total

    @property
    def status(self) -> str:
        """How many jobs have ended, and which was the first to fail and why, as text."""
        done = f"{len(self._ended)} of {len(self._jobs)} jobs done"
        failures = self.outcome.failures
        if not failures:
            return done
        first = failures[0]
        return f"{done}, {len(failures)} of them failed: {first.job}: {first.text.strip().splitlines()[-1]}"

    @property
    def outcome(self) -> Outcome:
        """The reports of the jobs that have ended, in the order in which they did."""
        ended = self._ended.values()
        return Outcome(
            tuple(Notice(event.job, event.failure) for event in ended if event.failure),
            tuple(Notice(event.job, text) for event in ended for text in event.notices),
        )

    def _refuse_circle(self) -> None:
        for name in self._jobs:
            chain = [name]
            while (after := self._jobs[chain[-1]].after) is not None and after in self._jobs:
                if after in chain:
                    circle = [*chain[chain.index(after) + 1 :], after]
                    waits = ", which waits for ".join(f"“{each}”" for each in circle)
                    raise BadInput(
                        f"the job “{after}” waits for {waits}: none of them can begin; end the circle"
                    )
                chain.append(after)

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
    """A place where jobs run."""

    @property
    def has_room(self) -> bool:
        """Whether another job may start now."""
        ...

    def begin(self, job: Job) -> None:
        """Start a job; `events` reports what becomes of it."""
        ...

    def events(self) -> Iterable[Advanced | Ended]:
        """What has happened since the last call; waits about a second if nothing has."""
        ...

    def stop(self) -> None:
        """Stop everything that still runs at once, and release the place."""
        ...


def do_jobs(jobs: Sequence[Job], backend: Backend, progress: Progress = silent) -> Outcome:
    """Do all jobs at a backend, which is stopped at the end in any case."""
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
