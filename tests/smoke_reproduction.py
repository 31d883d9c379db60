"""`isoloss reproduce figure-1 --scale smoke`, run once, in its own process, for all tests of it."""

import subprocess
import sys
from pathlib import Path

import pytest

from made_once import made_once

SMOKE = ("reproduce", "figure-1", "--scale", "smoke")


def smoke_reproduction(factory: pytest.TempPathFactory) -> Path:
    """The folder of the command, with its `results`, and the output of `--json` in `told.json`."""

    def run(folder: Path) -> None:
        command = [sys.executable, "-m", "isoloss.cli", *SMOKE, "--json"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        (folder / "told.json").write_text(done.stdout)

    return made_once("smoke", run, factory)
