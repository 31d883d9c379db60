"""Shapes and types are enforced at run time throughout the tests."""

import gc
import os
from collections.abc import Iterator

import pytest
import torch

import runtime_types

collect_ignore_glob = ["torture/[!t]*.py", "torture/torture.py"]
"""Run by themselves: see `test_torture.py`."""

runtime_types.install()

gc.disable()  # what is imported stays: to look through all of it for garbage takes seconds
gc.set_threshold(10_000)  # and to look as often as Python does by itself takes a twentieth of the time


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The longest test is the first: begun as the last one, it would leave the other processes idle.
    items.sort(key=lambda item: item.path.name != "test_torture.py")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    # pytest-xdist runs one process a core; more threads would only fight over them. For the whole session:
    # a module's fixtures come before a test's, and runs of another number of threads have other bits.
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _no_announcement() -> Iterator[None]:
    # In one process the first test to import torch would tell of it; where it is told is tested apart.
    import isoloss.command_line.terminal as display

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(display, "PATIENCE_SECONDS", 3600.0)
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_power_cut() -> Iterator[None]:
    # Of what tests make nothing is to be there after a power cut: some thousand waits for the disk less.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda handle: None)
        yield
