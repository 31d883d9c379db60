import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SMOKE = ("reproduce", "figure-1", "--scale", "smoke")


def isoloss(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "isoloss.cli", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("smoke")
    result = isoloss(*SMOKE, "--output", "out", "--json", folder=folder)
    assert result.returncode == 0, result.stderr
    return folder / "out", json.loads(result.stdout)


def test_json_alone_is_on_stdout_and_holds_every_number(done: tuple[Path, dict]) -> None:
    _, content = done
    assert Path(content["report"]).name == "figure-1.html"
    assert [claim["name"] for claim in content["claims"]] == [
        "one-loss", "trace-ranks-better", "later-is-flatter", "later-is-better",
    ]  # fmt: skip
    verdicts = {claim["verdict"] for claim in content["claims"]}
    assert verdicts <= {"supported", "not supported", "inconclusive"}
    assert len(content["checkpoints"]) == 2 * 2 * 3
    for row in content["checkpoints"]:
        assert row["loss"] > row["kl"] > 0
        assert 0 < row["accuracy"] <= 1
        assert row["trace"] > 0
        assert min(row["kl_error"], row["trace_error"], row["accuracy_error"]) > 0
    assert content["failures"] == []


def test_the_page_and_its_pictures_are_there(done: tuple[Path, dict]) -> None:
    output, content = done
    html = (output / "figure-1.html").read_text()
    for claim in content["claims"]:
        assert claim["claim"] in html
    assert "--runs width-16-seed-1" in html
    assert 'href="language.html"' in html
    assert "prefix-8" in (output / "language.html").read_text()
    for panel in ("loss", "trace", "steps"):
        for ending in ("csv", "png", "svg"):
            assert (output / f"figure-1-{panel}.{ending}").stat().st_size > 100


def test_a_second_call_computes_nothing_again_and_one_run_alone_has_the_same_bits(
    done: tuple[Path, dict], tmp_path: Path
) -> None:
    output, content = done
    weights = {path: path.stat().st_mtime_ns for path in output.rglob("model.safetensors")}
    again = isoloss(*SMOKE, "--output", str(output), "--json", folder=tmp_path)
    assert again.returncode == 0
    assert {path: path.stat().st_mtime_ns for path in output.rglob("model.safetensors")} == weights
    assert json.loads(again.stdout)["checkpoints"] == content["checkpoints"]

    one = isoloss(*SMOKE, "--runs", "width-32-seed-2", "--output", "one", "--json", folder=tmp_path)
    assert one.returncode == 0
    expected = [row for row in content["checkpoints"] if row["run"] == "width-32-seed-2"]
    assert json.loads(one.stdout)["checkpoints"] == expected


def test_interrupted_and_started_again_it_ends_with_the_same_numbers(
    done: tuple[Path, dict], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "isoloss.cli", *SMOKE, "--output", "out", "--json"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.rglob("checkpoint.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in stderr
    assert "Traceback" not in stderr
    resumed = isoloss(*SMOKE, "--output", "out", "--json", folder=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["checkpoints"] == done[1]["checkpoints"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--language", "nowhere.pcfg"), "nowhere.pcfg"),
        (("--task", "prefix-3"), "no task 'prefix-3'"),
        (("--runs", "width-1"), "no run is called 'width-1'"),
        (("--processes", "0"), "--processes must be at least 1"),
        (("--maximum-length", "5"), "--maximum-length needs --language"),
        (("--output", "file/below"), "cannot write in file/below"),
        (("--device", "tpu"), "device"),
    ],
)
def test_a_mistake_is_one_sentence_before_any_work(
    arguments: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    result = isoloss(*SMOKE, *arguments, folder=tmp_path)
    assert result.returncode == 2
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert not (tmp_path / "results").exists()


def test_an_unknown_scale_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    result = isoloss("reproduce", "figure-1", "--scale", "huge", folder=tmp_path)
    assert result.returncode == 2
    assert "smoke" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_dry_run_tells_the_cost_of_the_paper_and_leaves_nothing(tmp_path: Path) -> None:
    result = isoloss("reproduce", "figure-1", "--scale", "paper", "--dry-run", "--json", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    sizes = json.loads(result.stdout)["sizes"]
    assert [size["width"] for size in sizes] == [64, 128, 192, 256, 512, 768, 1024, 1280, 1536]
    assert sizes[-1]["hours_a100"] > sizes[0]["hours_a100"] > 0
    # The paper: "transformers from 2M to 950M".
    assert 0.6e9 < sizes[-1]["parameters"] < 1.0e9
    assert list(tmp_path.iterdir()) == []
