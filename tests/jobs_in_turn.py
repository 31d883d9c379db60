"""An executor that needs no processes, and `isoloss reproduce` with it."""

from collections.abc import Sequence

import pytest

from isoloss.command_line import reproduction
from isoloss.errors import IsolossError
from isoloss.executors.job import Job, Notice, Outcome
from isoloss.experiments import language_description
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


def reproduce_in_this_process(patch: pytest.MonkeyPatch) -> None:
    """Have `isoloss reproduce` do its jobs in turn, and describe languages on a few sentences."""
    patch.setattr(reproduction, "run_jobs", lambda jobs, processes, progress: in_turn(jobs, progress))
    patch.setattr(language_description, "usual_sentences", lambda language: 40)
