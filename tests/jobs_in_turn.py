"""An executor that needs no processes."""

from collections.abc import Sequence

from isoloss.errors import IsolossError
from isoloss.executors.job import Job, Notice, Outcome
from isoloss.progress import Progress


def in_turn(jobs: Sequence[Job], progress: Progress) -> Outcome:
    """Do the jobs one after the other; those that need a failed one fail."""
    failures: list[Notice] = []
    notices: list[Notice] = []
    names = {job.name for job in jobs}
    for job in jobs:  # in an order in which dependencies come first
        assert job.after is None or job.after in names
        if job.after in {failure.job for failure in failures}:
            failures.append(Notice(job.name, f"it needs {job.after}"))
            continue
        try:
            notices += [Notice(job.name, text) for text in job.work(progress)]
        except IsolossError as error:
            failures.append(Notice(job.name, str(error)))
    return Outcome(tuple(failures), tuple(notices))
