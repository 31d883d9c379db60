"""`isoloss reproduce figure-1 --scale smoke`, run once for all tests of it, its jobs in this process."""

import io
from contextlib import chdir, redirect_stdout
from pathlib import Path

import pytest

from isoloss.cli import main
from isoloss.command_line import reproduction
from jobs_in_turn import in_turn
from made_once import made_once

SMOKE = ("reproduce", "figure-1", "--scale", "smoke")


def smoke_reproduction(factory: pytest.TempPathFactory) -> Path:
    """The folder of the command, with its `results`, and the output of `--json` in `told.json`."""

    def run(folder: Path) -> None:
        told = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, chdir(folder), redirect_stdout(told):
            patch.setattr(reproduction, "run_jobs", lambda jobs, processes, progress: in_turn(jobs, progress))
            with pytest.raises(SystemExit) as leaving:
                main([*SMOKE, "--json"])
        assert not leaving.value.code
        (folder / "told.json").write_text(told.getvalue())

    return made_once("smoke", run, factory)
