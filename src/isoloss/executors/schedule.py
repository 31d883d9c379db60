"""Jobs in the order that they need, wherever they are done: when one fails, the others go on."""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from isoloss.errors import BadInput
from isoloss.executors.job import Advanced, Ended, Job, Notice, Outcome
from isoloss.progress import Progress, silent


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
