"""`isoloss reproduce` from end to end: what it writes, an interruption, and a run that fails."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from called import Capture, answer

from isoloss.command_line import reproduction
from isoloss.device import processor
from isoloss.experiments.design import Changes, other_experiments
from isoloss.experiments.scale import scale_named
from isoloss.report.site import Site, write_whole_site
from isoloss.results.record import as_text
from jobs_in_turn import in_turn, reproduce_in_this_process
from pages_read import pages_of, places_that_lead_nowhere
from smoke_reproduction import SMOKE, smoke_reproduction

ONE = ("--runs", "width-32-seed-2")

Done = tuple[Path, dict[str, Any]]
Called = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = smoke_reproduction(tmp_path_factory)
    return folder / "results" / "smoke", json.loads((folder / "told.json").read_text())


@pytest.fixture
def isoloss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Called:
    """The command and its jobs in this process: exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    reproduce_in_this_process(monkeypatch)

    return partial(answer, capsys)


def test_json_alone_is_on_stdout_and_holds_every_number(done: Done) -> None:
    _, content = done
    assert Path(content["report"]) == Path("results/smoke/site/figure-1.html")
    (figure,) = content["experiments"]
    assert figure["claims"] == []  # at smoke scale nothing is judged
    assert len(figure["checkpoints"]) == 2 * 2 * 3
    for row in figure["checkpoints"]:
        assert row["loss"] > row["kl"] > 0
        assert 0 < row["accuracy"] <= 1
        assert row["trace"] > 0
        assert min(row["kl_error"], row["trace_error"], row["accuracy_error"]) > 0
    assert 0 < figure["references"][0]["chance_accuracy"] < figure["references"][0]["posterior_accuracy"]
    assert content["failures"] == figure["failures"] == []


def test_every_reference_of_every_page_leads_somewhere_in_the_site(done: Done) -> None:
    site = done[0] / "site"
    pages = pages_of(site)
    names = sorted(pages)
    assert [names[0], names[1], names[3]] == ["figure-1", "index", "paper-and-here"]
    assert re.fullmatch("language-[0-9a-f]{8}", names[2])
    for name, page in pages.items():
        assert (site / f"{name}.html").stat().st_size < 3e5  # it does not contain the charts' JavaScript
        assert len(page.places) > 5
    assert places_that_lead_nowhere(site, pages) == []
    reached = {place for page in pages.values() for place in page.places}
    assert {f"{name}.html" for name in pages} <= reached


@pytest.mark.usefixtures("_no_charts")
def test_an_unfinished_experiment_keeps_its_page_in_a_site_that_is_written_for_others(
    done: Done, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the site tells where the runs were trained, not where it was written."""
    output = shutil.copytree(done[0], tmp_path / "smoke")
    site = Site("smoke", output, (), lambda *_: "")
    others = other_experiments(scale_named("smoke"), Changes())
    monkeypatch.setattr("isoloss.report.site.machine", lambda: "another machine")
    page, outcome = write_whole_site(site, others, in_turn)
    assert not outcome.failures
    assert "unfinished" not in page.read_text()
    assert "another machine" not in page.read_text()
    assert processor() in page.read_text()
    measured = sorted((output / "runs").glob("*/measured/*/*"))
    measured[0].unlink()
    page, _ = write_whole_site(site, others, in_turn)
    assert "Figure 1 is unfinished: the command that began it goes on." in page.read_text()
    assert 'href="figure-1.html"' in page.read_text()
    assert "3 of 4 runs are complete" in (page.parent / "figure-1.html").read_text()


def test_the_numbers_on_the_pages_are_those_of_the_json(done: Done) -> None:
    output, content = done
    (figure,) = content["experiments"]
    assert json.loads((output / "site" / "files" / "figure-1.json").read_text()) == figure
    overview, page = ((output / "site" / name).read_text() for name in ("index.html", "figure-1.html"))
    assert "nothing is judged" in overview
    assert "nothing is judged" in page
    tables = page.split('<table class="numbers">')[1:]
    table = next(table for table in tables if '<th scope="col">step</th>' in table)
    titles = re.findall(r'<th scope="col">([^<]*)</th>', table)
    rows = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in re.findall(r"<tr><td.*?</tr>", table)]
    shown_rows = [dict(zip(titles, row, strict=True)) for row in rows]
    assert len(rows) == len(figure["checkpoints"]) + len(figure["references"])
    for row, on_page in zip(figure["checkpoints"], shown_rows, strict=False):
        assert on_page["run"] == row["run"]
        assert on_page["step"] == str(row["step"])
        for name in ("loss", "kl", "trace", "accuracy"):
            assert on_page[name] == as_text(row[name], row.get(f"{name}_error"))
            assert float(on_page[name].split(" ± ")[0]) == pytest.approx(row[name], rel=0.1)
    assert "--runs width-16-seed-1" in page
    folder = output / "site" / "runs" / figure["checkpoints"][0]["folder"]
    records = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    assert figure["checkpoints"][0]["kl"] in [record["value"] for record in records]
    assert json.loads((folder / "specification.json").read_text())["seed"] == 1


def test_each_run_is_listed_once_and_shown_by_the_beginning_of_its_name(done: Done, isoloss: Called) -> None:
    output, content = done
    code, listed, _ = isoloss("runs", str(output), "--json")
    assert code == 0
    runs = json.loads(listed)["runs"]
    folders = {row["folder"] for row in content["experiments"][0]["checkpoints"]}
    assert sorted(run["run"] for run in runs) == sorted(folders)
    code, named, error = isoloss("show", runs[0]["run"][:8], "--results", str(output), "--json")
    assert code == 0, error
    assert json.loads(named)["run"] == runs[0]["run"]


def whole_checkpoints(folder: Path) -> list[Path]:
    """The files of checkpoints under their final names: one that is being written has no step's name yet."""
    return [path for path in folder.rglob("checkpoint.json") if path.parent.suffix != ".part"]


def in_a_process(folder: Path, isoloss: Called, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Ctrl-C reaches the command and the processes of its jobs."""
    command = [sys.executable, "-m", "isoloss.cli", *SMOKE, *ONE, "--output", "out", "--json"]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while not whole_checkpoints(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    return process.returncode, stderr


def in_this_process(folder: Path, isoloss: Called, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    def interrupt(task: str, completed: float, total: float, message: str = "") -> None:
        if whole_checkpoints(folder):
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(reproduction, "run_jobs", lambda jobs, processes, progress: in_turn(jobs, interrupt))
        code, _, stderr = isoloss(*SMOKE, *ONE, "--output", "out", "--json")
    return code, stderr


@pytest.mark.usefixtures("_nothing_painted")
@pytest.mark.parametrize("interrupted", [in_this_process, pytest.param(in_a_process, marks=pytest.mark.slow)])
def test_one_run_interrupted_and_started_again_ends_with_the_same_bits(
    interrupted: Callable[[Path, Called, pytest.MonkeyPatch], tuple[int, str]],
    done: Done,
    tmp_path: Path,
    isoloss: Called,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, error = interrupted(tmp_path, isoloss, monkeypatch)
    assert code == 130
    assert "interrupted" in error
    assert "Traceback" not in error
    kept = {path: path.stat().st_mtime_ns for path in whole_checkpoints(tmp_path)}
    assert kept
    code, resumed, error = isoloss(*SMOKE, *ONE, "--output", "out", "--json")
    assert code == 0, error
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    expected = [row for row in done[1]["experiments"][0]["checkpoints"] if row["run"] == "width-32-seed-2"]
    assert json.loads(resumed)["experiments"][0]["checkpoints"] == expected
    assert "1 of 4 runs are complete" in (tmp_path / "out" / "site" / "figure-1.html").read_text()


@pytest.mark.usefixtures("_no_charts")
def test_a_run_that_fails_is_named_everywhere_and_the_others_stay_as_they_are(
    done: Done, tmp_path: Path, isoloss: Called
) -> None:
    output = tmp_path / "out"
    shutil.copytree(done[0], output)
    checkpoints = done[1]["experiments"][0]["checkpoints"]
    folder = next(row["folder"] for row in checkpoints if row["run"] == ONE[1])
    other = next(row["folder"] for row in checkpoints if row["run"] != ONE[1])
    shutil.rmtree(output / "runs" / folder)
    shutil.copytree(output / "runs" / other, output / "runs" / folder)
    kept = [path for path in output.rglob("*") if path.is_file() and path.suffix in (".safetensors", ".pt")]
    before = {path: path.stat().st_mtime_ns for path in kept}
    code, written, error = isoloss(*SMOKE, "--output", "out", "--json")
    assert code == 1
    content = json.loads(written)
    (failure,) = content["failures"]
    assert failure["job"] == "figure-1 width-32-seed-2"
    assert "holds another run" in failure["text"]
    assert "figure-1 width-32-seed-2 failed: " in error
    for page in ("figure-1.html", "index.html"):
        assert "figure-1 width-32-seed-2 failed: " in (output / "site" / page).read_text()
    others = [row for row in checkpoints if row["run"] != ONE[1]]
    assert content["experiments"][0]["checkpoints"] == others
    assert len(before) > 10
    assert {path: path.stat().st_mtime_ns for path in before} == before
