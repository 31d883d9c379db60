"""`isoloss reproduce figure-1 --scale smoke`, run once for all tests of it: in this process, unpainted."""

import io
from contextlib import chdir, redirect_stdout
from pathlib import Path

import pytest

from isoloss.cli import main
from jobs_in_turn import reproduce_in_this_process
from made_once import made_once
from unpainted import paint_nothing

SMOKE = ("reproduce", "figure-1", "--scale", "smoke")


def smoke_reproduction(factory: pytest.TempPathFactory) -> Path:
    """The folder of the command, with its `results`, and the output of `--json` in `told.json`."""

    def run(folder: Path) -> None:
        told = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, chdir(folder), redirect_stdout(told):
            reproduce_in_this_process(patch)
            paint_nothing(patch)
            with pytest.raises(SystemExit) as leaving:
                main([*SMOKE, "--json"])
        assert not leaving.value.code
        (folder / "told.json").write_text(told.getvalue())

    return made_once("smoke", run, factory)
