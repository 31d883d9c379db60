"""What jobs request from SLURM, and what SLURM says of them: ends, hindrances, and refusals that pass."""

import json
import math
import re
import subprocess
from dataclasses import asdict, dataclass
from typing import Any

from isoloss.errors import BadInput

ENDS = frozenset({"CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"})
"""States after which a job does not run again (https://slurm.schedmd.com/job_state_codes.html)."""
LOST = frozenset({"BOOT_FAIL", "NODE_FAIL", "PREEMPTED"})
"""Ends unless SLURM requeues the job, which accounting shows some time after its state was one of these."""
_HELD = frozenset({"REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
_STOPPED = frozenset({"REVOKED", "STOPPED", "SUSPENDED"})
_LIMITS = re.compile(r"\w*(?:Max|Grp)SubmitJob\w*|temporarily unable to accept job")


@dataclass(frozen=True)
class SlurmSettings:
    """What each job requests from SLURM; None leaves it to the cluster's defaults.

    A job that is not done after `hours` is requeued, at most `time_outs` times. `cores` is also its number of
    threads: with one, a run's last bits equal those of `run_jobs`.
    """

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    hours: float = 24.0
    memory_gigabytes: float = 8.0
    cores: int = 1
    gpus: int = 0
    time_outs: int = 100

    def __post_init__(self) -> None:
        finite = 0 < 60 * self.hours < math.inf and 0 < self.memory_gigabytes < math.inf
        if not (finite and self.cores >= 1 and self.gpus >= 0):
            raise BadInput(
                "a SLURM job needs some hours, some memory (both finite), at least one core and no fewer "
                f"than 0 GPUs, not {self.hours}, {self.memory_gigabytes}, {self.cores}, {self.gpus}"
            )

    def parameters(self, cluster: str) -> dict[str, Any]:
        """The settings under submitit's names."""
        found: dict[str, Any] = {
            "timeout_min": max(1, round(60 * self.hours)),
            "cpus_per_task": self.cores,
        }
        if self.gpus:
            found["gpus_per_node"] = self.gpus
        if cluster == "slurm":
            found["mem_gb"] = self.memory_gigabytes
            found["slurm_additional_parameters"] = {"requeue": True}
            for name in ("partition", "account", "qos", "constraint"):
                if (value := getattr(self, name)) is not None:
                    found[f"slurm_{name}"] = value
        return found

    def kept(self) -> str:
        """One line of text, which `differences` reads."""
        return json.dumps(asdict(self))

    def differences(self, kept: str) -> str:
        """What was other in the kept settings of an earlier call; empty if nothing was, or none are kept.

        >>> SlurmSettings(partition="gpu", hours=48.0).differences(SlurmSettings(hours=1.0).kept())
        "partition the cluster's default (now gpu), hours 1 (now 48)"
        """
        then = json.loads(kept or "{}")
        others = [name for name, now in asdict(self).items() if name in then and then[name] != now]
        return ", ".join(
            f"{name.replace('_', ' ')} {_said(then[name])} (now {_said(getattr(self, name))})"
            for name in others
        )


USUAL = SlurmSettings()
"""What a job requests if nothing else is said."""


def _said(value: str | float | None) -> str:
    if value is None:
        return "the cluster's default"
    return value if isinstance(value, str) else f"{value:g}"


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
