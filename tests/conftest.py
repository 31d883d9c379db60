"""Shapes and types are enforced at run time throughout the tests."""

import gc
import logging
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

from unpainted import paint_nothing

collect_ignore_glob = ["torture/[!t]*.py", "torture/torture.py"]
"""Run separately: see `test_torture.py`."""

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # tables are small: threads would only wake one another

logging.getLogger().addHandler(logging.NullHandler())  # else what libraries log would be on stderr

gc.disable()  # imported modules stay: searching all of them for garbage takes seconds
gc.set_threshold(10_000)  # and collecting as often as Python does by default takes a twentieth of the time


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Tests have no doctests, and no two conftest modules could be imported to look for them."""
    return [each for each in (yield) if not isinstance(each, DoctestModule)]


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("dist", "no") != "no" and config.getoption("tx"):
        return  # this process only hands out tests to others, which wait for it
    import runtime_types

    runtime_types.install()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    gc.freeze()  # at its end pytest searches everything twice, for seconds


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The longest tests come first: started last, they would leave the other processes idle.
    items.sort(key=lambda item: item.path.name != "test_reproduction_at_smoke_scale.py")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    # pytest-xdist runs one process per core; more threads would only compete. For the whole session: a
    # module's fixtures run before its tests, and runs with another number of threads have different bits.
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _no_announcement() -> Iterator[None]:
    # In a single process, the first test to import torch would report it; that report is tested separately.
    import isoloss.command_line.terminal as display

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(display, "PATIENCE_SECONDS", 3600.0)
        yield


@pytest.fixture
def _nothing_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what else a page or a command tells."""
    paint_nothing(monkeypatch)


@pytest.fixture(autouse=True, scope="session")
def _no_power_cut() -> Iterator[None]:
    # Nothing that tests write must survive a power cut: this saves thousands of waits for the disk.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda handle: None)
        yield
