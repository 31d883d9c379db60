"""Several processes that train together, as if started by `torchrun`, forked from the test's own."""

import multiprocessing
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from accelerate import PartialState

from isoloss.errors import IsolossError
from isoloss.pretraining.processes import Processes, launched_processes

FORK = multiprocessing.get_context("fork")


def in_processes(count: int, work: Callable[[Processes], Any], folder: Path) -> list[Any]:
    """The return value of `work` in each process, or the text of the IsolossError that it raised there."""
    folder.mkdir(parents=True, exist_ok=True)
    children = [FORK.Process(target=partial(_one, count, n, work, folder)) for n in range(count)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * count
    return [torch.load(folder / f"result-{n}", weights_only=False) for n in range(count)]


def _one(count: int, number: int, work: Callable[[Processes], Any], folder: Path) -> None:
    names = {"WORLD_SIZE": count, "RANK": number, "LOCAL_RANK": number, "LOCAL_WORLD_SIZE": count}
    os.environ |= {name: str(value) for name, value in names.items()} | {"OMP_NUM_THREADS": "1"}
    torch.set_num_threads(1)
    PartialState._reset_state()  # caused by another test in this process
    # They meet through a file, not a port, which another test could take in between; accelerate uses the
    # group.
    meeting = f"file://{folder / 'meeting'}"
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=number, world_size=count)
    try:
        with launched_processes() as processes:
            result = work(processes)
    except IsolossError as error:
        result = str(error)
    torch.save(result, folder / f"result-{number}")
    os._exit(0)  # a child must not exit as pytest would
