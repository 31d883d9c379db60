"""Where numbers come from: the machine and the versions behind a run."""

import os
import platform
from importlib.metadata import version

_PACKAGES = ("isoloss", "torch", "transformers", "numpy", "polars", "altair")


def machine() -> str:
    """The processor, its usable cores, and the operating system, in words.

    >>> "core" in machine()
    True
    """
    return f"{processor()}, {usable_cores()} core(s) usable, {platform.system()} {platform.machine()}"


def processor() -> str:
    """The processor's name, on which a run's last bits depend.

    >>> processor() != ""
    True
    """
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def usable_cores() -> int:
    """How many cores this process may run on.

    >>> usable_cores() >= 1
    True
    """
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every system has processor affinity
        return os.cpu_count() or 1


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a number depends on.

    >>> sorted(versions())[0]
    'altair'
    """
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
