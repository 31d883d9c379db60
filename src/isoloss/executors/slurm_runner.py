"""Runs as jobs of a SLURM cluster: those that run out of time are requeued and continue."""

import contextlib
import hashlib
import json
import logging
import pickle
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from isoloss.errors import IsolossError, Terminated
from isoloss.executors.job import (
    Advanced,
    Ended,
    Job,
    Outcome,
    Work,
    do,
    do_jobs,
    last_line,
    reports,
    retried_while_held,
)
from isoloss.executors.slurm import (
    LOST,
    USUAL,
    SlurmSettings,
    cancel_if_there,
    hindrance,
    limit_reached,
    state_of,
    watch_until_the_end,
)
from isoloss.files import writable, write_atomically
from isoloss.progress import Progress, silent

SECONDS_BETWEEN_LOOKS = 2.0
SECONDS_BETWEEN_REPORTS = 5.0
SECONDS_UNTOLD = 60.0
"""A job that has reported nothing, and of which accounting has said nothing for as long, is told of."""
SECONDS_UNTIL_REQUEUED = 300.0
"""A job whose node was lost, and that SLURM has not requeued for as long, has failed."""
SECONDS_BETWEEN_TRIES = 60.0
"""Between submissions of a job that SLURM refuses since there are too many."""


def run_jobs_on_slurm(
    jobs: Sequence[Job],
    folder: Path,
    progress: Progress = silent,
    *,
    settings: SlurmSettings = USUAL,
    cluster: Literal["slurm", "local", "debug"] = "slurm",
) -> Outcome:
    """Do all `jobs` through SLURM, whose scripts, logs and reports are in `folder`.

    Arguments as in `run_jobs`: a job is submitted when the one that it needs has succeeded; refused since as
    many as allowed are submitted, once more every minute. One that runs out of time, is preempted, or loses
    its node is requeued and continues from its last checkpoint. On KeyboardInterrupt all jobs are cancelled.
    If this process is killed instead, or asked to end (see `Terminated`), the jobs continue, and the same
    call finds them again and waits for them. With other `settings`, those in the queue are submitted anew,
    and of the others it is said that they differ.

    Every node needs this package, this folder and the jobs' files under the same paths, and SLURM needs its
    accounting (`sacct`). `cluster` "local" runs the jobs as processes of this machine, all at once, and
    "debug" one after the other in this process. Raises IsolossError if submitit or SLURM is missing, SLURM
    refuses a job, or `folder` cannot be written.
    """
    return do_jobs(jobs, _SlurmJobs(folder.absolute(), settings, cluster), progress)


@dataclass
class _Running:
    submitted: Any
    reports: Path
    note: str = ""
    begun: float = field(default_factory=time.monotonic)
    last_report: str = ""
    lost_since: float | None = None

    @property
    def remark(self) -> str:
        """A sentence if the job is held up, or nothing has been said of it for long; otherwise the note."""
        state, job_id = state_of(self.submitted), self.submitted.job_id
        long = time.monotonic() - self.begun > SECONDS_UNTOLD
        if long and not self.last_report and state == "UNKNOWN":
            untold = f"SLURM's accounting (sacct) does not list its job {job_id}"
            return f"{untold}; ask for accounting, without which no end is seen"
        return hindrance(job_id, state) or self.note

    def is_lost(self) -> bool:
        """Whether SLURM has lost the job, and has not requeued it for long."""
        if state_of(self.submitted) not in LOST:
            self.lost_since = None
            return False
        now = time.monotonic()
        self.lost_since = self.lost_since or now
        if now - self.lost_since < SECONDS_UNTIL_REQUEUED:
            return False
        self.submitted.done(force_check=True)  # submitit asks accounting rarely
        return state_of(self.submitted) in LOST


@dataclass(frozen=True)
class _Refused:
    """A job that SLURM refuses since as many as it allows are submitted."""

    job: Job
    limit: str
    at: float = field(default_factory=time.monotonic)


class _SlurmJobs:
    """A `Backend` with one SLURM job each."""

    def __init__(self, folder: Path, settings: SlurmSettings, cluster: str) -> None:
        self._submitit = submitit = _submitit()
        self._folder, self._cluster, self._settings = folder, cluster, settings
        with writable(folder):
            folder.mkdir(parents=True, exist_ok=True)
        retries: dict[str, Any] = {}
        if cluster != "debug":
            retries = {f"{cluster}_max_num_timeout": settings.time_outs}
        try:
            self._executor = submitit.AutoExecutor(folder, cluster=cluster, **retries)
        except RuntimeError as error:
            raise IsolossError(
                f"SLURM is not to be found here ({error}); submit from a node that has `sbatch`"
            ) from error
        watch_until_the_end(submitit.SlurmJob.watcher)
        self._executor.update_parameters(**settings.parameters(cluster))
        self._running: dict[str, _Running] = {}
        self._refused: _Refused | None = None

    @property
    def has_room(self) -> bool:
        """See `Backend`; jobs for which no node is free wait in SLURM's queue, unless that takes no more."""
        return self._refused is None

    def begin(self, job: Job) -> None:
        work = pickle.dumps(partial(_until_out_of_time, job.work))
        key = hashlib.sha256(job.name.encode() + (job.key.encode() or work)).hexdigest()[:16]
        reports = self._folder / f"{key}.report"
        submitted, note = self._earlier(key)
        if submitted is None:
            reports.unlink(missing_ok=True)
            self._executor.update_parameters(name=job.name.replace(" ", "-"))
            doing = _Doing(job.name, work, str(Path.cwd()), tuple(sys.path), self._settings.cores, reports)
            try:
                submitted = self._executor.submit(doing)
            except self._submitit.core.utils.FailedJobError as error:
                self._remove_unsubmitted()
                if limit := limit_reached(str(error)):
                    self._refused = _Refused(job, limit)
                    return
                raise IsolossError(f"SLURM refuses the job “{job.name}”: {last_line(error)}") from error
            write_atomically(self._folder / f"{key}.job", f"{submitted.job_id}\n{self._settings.kept()}")
        self._running[job.name] = _Running(submitted, reports, note)

    def events(self) -> Iterator[Advanced | Ended]:
        time.sleep(SECONDS_BETWEEN_LOOKS)
        yield from self._tried_again()
        for name, entry in list(self._running.items()):
            done = entry.submitted.done()  # before its last report is read, so that none is missed
            before = entry.last_report
            with contextlib.suppress(OSError):
                entry.last_report = entry.reports.read_text()
            remark = "" if done else entry.remark
            if remark or entry.last_report != before:
                completed, total, text = json.loads(entry.last_report or '[0.0, 1.0, ""]')
                yield Advanced(name, completed, total, "; ".join(filter(None, (text, remark))))
            if done or entry.is_lost():
                del self._running[name]
                yield self._ended(name, entry.submitted)

    def stop(self) -> None:
        """See `Backend`; jobs continue if only this process is asked to end, e.g. as its node restarts."""
        if isinstance(sys.exception(), Terminated):
            return
        for entry in self._running.values():
            entry.submitted.cancel(check=False)

    def _tried_again(self) -> Iterator[Advanced]:
        """Submit a job that was refused once more if it is time to, and report if it is still refused."""
        if (refused := self._refused) and time.monotonic() - refused.at >= SECONDS_BETWEEN_TRIES:
            self._refused = None
            self.begin(refused.job)
        if self._refused:
            text = f"SLURM takes no more jobs now ({self._refused.limit}); it is asked again every minute"
            yield Advanced(self._refused.job.name, 0.0, 1.0, text)

    def _remove_unsubmitted(self) -> None:
        """Remove what submitit wrote for a job that was refused."""
        for pattern in ("[0-9a-f]" * 32 + ".pkl", ".submission_file_*.sh"):
            for path in self._folder.glob(pattern):
                if not path.is_symlink():  # as those of submitted jobs are
                    path.unlink(missing_ok=True)

    def _earlier(self, key: str) -> tuple[Any, str]:
        """The job of the same work that an earlier call submitted and that goes on, and what to say of it.

        One that waits in the queue is cancelled if other settings are asked for now.
        """
        path = self._folder / f"{key}.job"
        if self._cluster != "slurm" or not path.exists():
            return None, ""
        job_id, _, kept = path.read_text().partition("\n")
        submitted = self._submitit.SlurmJob(self._folder, job_id)
        state = state_of(submitted)
        if state in LOST:
            cancel_if_there(job_id)  # requeued, it would run beside the one to be submitted
        if state in LOST or state == "UNKNOWN" or submitted.done():
            return None, ""
        if not (differences := self._settings.differences(kept)):
            return submitted, ""
        if state == "PENDING":
            cancel_if_there(job_id)
            anew = (
                f"SLURM job {job_id} of an earlier call, still in the queue, is cancelled and submitted anew"
            )
            return None, f"{anew}: {differences}"
        earlier = f"SLURM job {job_id} has what an earlier call asked for: {differences}"
        return submitted, f"{earlier}; to have the new, `scancel {job_id}` and run the same command again"

    def _ended(self, name: str, submitted: Any) -> Ended:
        if not submitted.done():  # lost; requeued later, it would run beside that of the same command
            failed = _without_result(name, submitted)
            cancel_if_there(submitted.job_id)
            return failed
        try:
            ended: Ended = submitted.result()
        except self._submitit.core.utils.FailedJobError as error:
            return Ended(name, failure=f"the node cannot do it: {last_line(error)}")
        except self._submitit.core.utils.UncompletedJobError:
            return _without_result(name, submitted)
        return ended


def _without_result(name: str, submitted: Any) -> Ended:
    log = submitted.paths.stderr
    where = f"its log is {log}" if log.exists() else f"there is no log at {log}"
    ended = f"its SLURM job {submitted.job_id} ended as {submitted.state}"
    return Ended(name, failure=f"{ended}; {where}; the same command goes on from its last checkpoint")


@dataclass(frozen=True)
class _Doing:
    """A job in its own process on a node; submitit calls it, and asks how to continue after a time-out."""

    job: str
    work: bytes
    folder: str
    modules: tuple[str, ...]
    """Where the caller finds modules, such as that of a user's experiment: work is pickled by their names."""
    threads: int
    reports: Path

    def __call__(self) -> Ended:
        torch.set_num_threads(self.threads)
        sys.path.extend(place for place in self.modules if place not in sys.path)

        def send(report: Advanced) -> None:
            with contextlib.suppress(IsolossError):
                write_atomically(self.reports, json.dumps([report.completed, report.total, report.text]))

        with contextlib.chdir(self.folder):  # paths may be relative to the caller's folder
            return do(self.job, self.work, reports(self.job, SECONDS_BETWEEN_REPORTS, send))

    def checkpoint(self) -> Any:
        """What to requeue when this process is about to run out of time: the same work, which resumes."""
        return _submitit().helpers.DelayedSubmission(self)


def _until_out_of_time(work: Work, progress: Progress) -> Sequence[str]:
    """Do work that submitit, in a signal handler, may end if it has been requeued too often."""
    try:
        return retried_while_held(work, progress)
    except _submitit().core.utils.UncompletedJobError as error:
        raise IsolossError(
            "it has run out of time too often; ask for more hours, and the same command goes on from its "
            "last checkpoint"
        ) from error


def _submitit() -> Any:
    try:
        import submitit
    except ImportError as error:
        raise IsolossError("runs on SLURM need the package submitit; pip install 'isoloss[slurm]'") from error
    logging.getLogger("submitit").setLevel(logging.ERROR)
    return submitit
