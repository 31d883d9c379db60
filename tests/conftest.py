"""Shapes and types are enforced at run time throughout the tests."""

from collections.abc import Iterator

import pytest
import torch
from jaxtyping import install_import_hook

collect_ignore_glob = ["torture/[!t]*.py", "torture/torture.py"]
"""Run by themselves: see `test_torture.py`."""

install_import_hook("isoloss", "runtime_types.checked")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    # pytest-xdist runs one process a core; more threads would only fight over them. For the whole session:
    # a module's fixtures come before a test's, and runs of another number of threads have other bits.
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _no_announcement() -> Iterator[None]:
    # In one process the first test to import torch would tell of it; where it is told is tested apart.
    import isoloss.command_line.progress_display as display

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(display, "PATIENCE_SECONDS", 3600.0)
        yield
