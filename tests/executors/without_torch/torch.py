"""Stands in for torch in SLURM's jobs that need it for its threads alone: to import torch takes seconds."""

threads = 0


def set_num_threads(number: int) -> None:
    global threads
    threads = number


def get_num_threads() -> int:
    return threads
