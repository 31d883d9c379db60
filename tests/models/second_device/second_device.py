"""A second device for torch, built from `second_device.cpp` and loaded into a process of its own."""

import shutil
import subprocess
from pathlib import Path

import torch
from torch.utils import backend_registration, cpp_extension

SOURCE = Path(__file__).with_suffix(".cpp")
NAME = "privateuseone:0"


def compiler() -> str | None:
    """The compiler to build it with, if there is one."""
    return shutil.which("g++")


def build(library: Path) -> None:
    """Compile it, in about a minute."""
    found = compiler()
    assert found is not None
    headers = [f"-isystem{path}" for path in cpp_extension.include_paths()]
    libraries = [f"-L{path}" for path in cpp_extension.library_paths()]
    options = ["-shared", "-fPIC", "-std=c++20", *headers, *libraries]
    linked = ["-lc10", "-ltorch_cpu", "-ltorch"]
    subprocess.run([found, *options, str(SOURCE), "-o", str(library), *linked], check=True)


def load(library: str) -> torch.device:
    """Let torch know it, in this process for good."""
    torch.ops.load_library(library)
    torch.utils.rename_privateuse1_backend("privateuseone")  # its name as before, but now it is registered
    torch._register_device_module("privateuseone", backend_registration._DummyBackendModule())
    hook = backend_registration._DummyPrivateUse1Hook()
    torch._C._acc.register_python_privateuseone_hook(hook)
    return torch.device(NAME)
