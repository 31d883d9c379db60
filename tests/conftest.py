"""Shapes and types are enforced at run time throughout the tests."""

import pytest
import torch
from jaxtyping import install_import_hook

install_import_hook("isoloss", "runtime_types.checked")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    # pytest-xdist runs one process a core; more threads would only fight over them. For the whole session:
    # a module's fixtures come before a test's, and runs of another number of threads have other bits.
    torch.set_num_threads(1)
