"""Waiting for a run's folder that a lost machine may still hold."""

import time

from isoloss.errors import FolderHeld
from isoloss.experiments.job import Work
from isoloss.progress import Progress

HOLD_SECONDS = 300.0
"""How long a lost machine's hold on a folder is waited for. A file server ends the locks of a machine that
it no longer hears after a lease (90 seconds with Linux's NFS), and a Ray node that is cut off stops its own
work after about a minute; twice both together."""

_PAUSE_SECONDS = 2.0


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
