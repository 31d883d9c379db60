"""The package as others install it."""

import os
import re
import subprocess
import sys
import tomllib
import venv
from functools import partial
from pathlib import Path

import pytest

import isoloss
from page_blocks import ROOT


def test_the_version_is_told_alike_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == isoloss.__version__
    assert f"\nversion: {isoloss.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    changes = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert changes[0] == isoloss.__version__


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), "."]
    subprocess.run(command, cwd=ROOT, check=True)
    (built,) = folder.glob("isoloss-*.whl")
    return built


@pytest.mark.slow
def test_an_empty_environment_takes_the_wheel_and_runs_it(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", with_pip=True)
    programs = tmp_path / "empty" / "bin"
    # Sources on the path would count as installed already.
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = partial(subprocess.run, cwd=tmp_path, env=alone, check=True)
    constraints = ["--constraint", ROOT / "constraints.txt"]
    run([programs / "python", "-m", "pip", "install", "--quiet", *constraints, wheel])
    run([programs / "isoloss", "reproduce", "figure-1", "--scale", "smoke"])
    assert (tmp_path / "results" / "smoke" / "site").is_dir()
    checkpoint = max((tmp_path / "results" / "smoke" / "runs").glob("*/steps/*"))
    (tmp_path / "ids.jsonl").write_text("[1, 3, 4, 5]\n" * 64)
    asked = ["--token-ids", "ids.jsonl", "--mask-token-id", "2", "--sentences", "16"]
    run([programs / "isoloss", "flatness", checkpoint, *asked])
