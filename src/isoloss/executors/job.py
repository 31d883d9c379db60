"""A piece of work that an executor does somewhere, and what it tells on its way and at its end."""

import pickle
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from isoloss.errors import FolderHeld, IsolossError
from isoloss.progress import Progress

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
    has ended well, and fails where that failed. `name` is unique among the jobs done together.
    """

    name: str
    work: Work
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
