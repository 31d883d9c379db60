"""What SLURM says of a job: which states are its end, which only hold it up, and which refusals pass."""

import re
import subprocess
from typing import Any

ENDS = frozenset({"CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"})
"""States after which a job does not run again (https://slurm.schedmd.com/job_state_codes.html)."""
LOST = frozenset({"BOOT_FAIL", "NODE_FAIL", "PREEMPTED"})
"""Ends unless SLURM requeues the job, which accounting shows some time after its state was one of these."""
_HELD = frozenset({"REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
_STOPPED = frozenset({"REVOKED", "STOPPED", "SUSPENDED"})
_LIMITS = re.compile(r"\w*(?:Max|Grp)SubmitJob\w*|temporarily unable to accept job")


def state_of(submitted: Any) -> str:
    """The state of submitit's job in SLURM's accounting; UNKNOWN if that does not list it.

    >>> from types import SimpleNamespace
    >>> state_of(SimpleNamespace(state="CANCELLED by 1000")), state_of(SimpleNamespace(state=""))
    ('CANCELLED', 'UNKNOWN')
    """
    return _first_word(submitted.state)


def watch_until_the_end(watcher: Any) -> None:
    """Let submitit's watcher ask for each job until its state is one of `ENDS`.

    By itself it takes every state that it does not know for an end, SUSPENDED too, and asks no more.
    """

    def is_done(job_id: str, mode: str = "standard") -> bool:
        return _first_word(watcher.get_state(job_id, mode)) in ENDS

    watcher.is_done = is_done


def hindrance(job_id: str, state: str) -> str:
    """A sentence on a job that does not run, though its state is no end; empty for usual states.

    >>> hindrance("7", "REQUEUE_HOLD"), hindrance("7", "PENDING")
    ('its SLURM job 7 is held (REQUEUE_HOLD); `scontrol release 7` lets it go on', '')
    """
    if state in _HELD:
        return f"its SLURM job {job_id} is held ({state}); `scontrol release {job_id}` lets it go on"
    if state in _STOPPED:
        return f"its SLURM job {job_id} is {state}, which is not its end: it is waited for"
    if state in LOST:
        return f"its SLURM job {job_id} is lost ({state}); SLURM has some minutes to requeue it"
    return ""


def limit_reached(refusal: str) -> str:
    """The limit on the number of submitted jobs for which `sbatch` refuses one; empty for other refusals.

    >>> limit_reached("sbatch: error: AssocMaxSubmitJobLimit"), limit_reached("invalid partition specified")
    ('AssocMaxSubmitJobLimit', '')
    """
    found = _LIMITS.search(refusal)
    return found.group() if found else ""


def cancel_if_there(job_id: str) -> None:
    """Cancel a job that may have ended, of which `scancel` would complain."""
    subprocess.run(["scancel", job_id], capture_output=True, check=False)


def _first_word(state: str) -> str:
    return (state.upper().split() or ["UNKNOWN"])[0]
