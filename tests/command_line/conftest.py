"""isoloss is imported within the fixtures: what was imported before `pytest_configure` is not checked."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from made_once import made_once


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder of `save_models`, in which the tests of a module write."""
    from flatness_folders import save_models

    whole = made_once("models", save_models, tmp_path_factory)
    return Path(shutil.copytree(whole, tmp_path_factory.mktemp("models") / "models"))


@pytest.fixture
def flatness(models, monkeypatch, capsys):
    """`isoloss flatness` in that folder, called with its arguments."""
    from called import answer

    monkeypatch.chdir(models)
    return partial(answer, capsys, "flatness")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A folder of `save_compared`, in which the tests of a module write."""
    from compared_folders import save_compared

    whole = made_once("compared", save_compared, tmp_path_factory)
    return Path(shutil.copytree(whole, tmp_path_factory.mktemp("models") / "models"))


@pytest.fixture
def compare(compared, monkeypatch, capsys, tmp_path):
    """`isoloss compare` in that folder, called with its arguments, and a page in `tmp_path` if no other."""
    from called import answer

    from isoloss.measurements import linear_probe

    monkeypatch.chdir(compared)
    monkeypatch.setattr(linear_probe, "CONVERGED_AFTER", 100)

    def command(*arguments, output=tmp_path / "report.html"):
        return answer(capsys, "compare", *arguments, "--output", output)

    return command


@pytest.fixture
def _no_charts(monkeypatch):
    """For tests of what else a page tells: to compose its charts takes as long as to measure tiny models."""
    from isoloss.report.marks import NOTHING

    monkeypatch.setattr("isoloss.report.page.draw", lambda *_: NOTHING)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder of three runs written by hand: two of one language, and one of another that is unfinished."""
    from hand_made_runs import LOSS, write_names, write_run

    write_run(tmp_path, "aaaa1111", width=32, loss=LOSS, trace={40: [5.0, 6.0]})
    write_run(tmp_path, "aabb2222", width=64, seed=2, loss={10: [2.1, 2.3, 2.5], 40: [0.5, 0.7, 0.9]})
    write_run(tmp_path, "cccc3333", width=16, steps=(10,), language="other")
    write_names(tmp_path, "figure-1", {"aaaa1111": "width-32"})
    return tmp_path


@pytest.fixture
def grammar(tmp_path: Path) -> str:
    """A file of the grammar of some a's and a b."""
    path = tmp_path / "my.pcfg"
    path.write_text("S -> 'a' S [0.5] | B [0.5]\nB -> 'b' [1.0]\n")
    return str(path)
