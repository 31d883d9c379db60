"""What jobs of the executors' tests do, apart from them: each job's process would repeat their imports."""

import os
import resource
import signal
import time
from pathlib import Path

import torch

from isoloss.errors import BadInput
from isoloss.progress import Progress


def write_thread_count(path: Path, progress: Progress) -> list[str]:
    progress("writing", 1, 2)
    path.write_text(str(torch.get_num_threads()))
    return [f"wrote {path.name}"]


def write_after_lines(number: int, awaited: Path, path: Path, progress: Progress) -> list[str]:
    while not awaited.exists() or len(awaited.read_text().splitlines()) < number:
        time.sleep(0.05)
    return write_thread_count(path, progress)


def write_page_faults(path: Path, progress: Progress) -> list[str]:
    torch.ones(2**21)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        torch.ones(2**21)  # 8 MiB, freed at once
    path.write_text(str(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before))
    return []


def fail_with_a_sentence(progress: Progress) -> list[str]:
    raise BadInput("the seed must not be negative")


def fail_unexpectedly(progress: Progress) -> list[str]:
    raise ZeroDivisionError("a bug")


def be_killed(progress: Progress) -> list[str]:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
    return []


def only_after(before: Path, path: Path, progress: Progress) -> list[str]:
    assert before.exists()
    return write_thread_count(path, progress)


def count(tensors: list[object], progress: Progress) -> list[str]:
    return [str(len(tensors))]


def run_out_of_time_once(path: Path, progress: Progress) -> list[str]:
    """The first time it is told, as by SLURM, that its time ends; the second time it continues."""
    begun = len(path.read_text().splitlines()) if path.exists() else 0
    with path.open("a") as file:
        file.write("begun\n")
    progress("begun", 1, 2, f"{begun + 1} times")
    if begun == 0:
        os.kill(os.getpid(), signal.SIGUSR2)
        time.sleep(60)
    return [f"went on from {begun}"]


def never_end(path: Path, progress: Progress) -> list[str]:
    path.write_text(str(os.getpid()))
    time.sleep(60)
    return []


def never_end_either(number: int, path: Path, progress: Progress) -> list[str]:
    return never_end(path, progress)
