"""What jobs request from SLURM, and how it differs from what an earlier call requested."""

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from isoloss.errors import BadInput


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
