import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from isoloss.cli import main
from isoloss.command_line import cost_table, reproduction
from isoloss.command_line.options.reproduce import ReproduceOptions
from isoloss.command_line.reproduction import reproduce_experiments
from isoloss.command_line.reproduction_request import Choice, choice, command_again
from isoloss.errors import BadInput, IsolossError
from isoloss.executors.runner import Notice, Outcome
from isoloss.experiments.cost import this_machine
from isoloss.experiments.experiment_result import Results
from isoloss.progress import silent
from isoloss.report.number import shown

SMOKE = ("reproduce", "figure-1", "--scale", "smoke")
ONE = ("--runs", "width-32-seed-2")
EXTREMES = tuple(f"width-{width}-seed-{seed}" for width in (64, 1536) for seed in (1, 2, 3))


def isoloss(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "isoloss.cli", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("smoke")
    result = isoloss(*SMOKE, "--output", "out", "--json", folder=folder)
    assert result.returncode == 0, result.stderr
    return folder / "out", json.loads(result.stdout)


class References(HTMLParser):
    """The places that a page refers to, and the names of those of its own that can be referred to."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.places: list[str] = []
        self.names: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value and not value.startswith("data:"):
                self.places.append(value)
            if name == "id" and value:
                self.names.add(value)


def test_json_alone_is_on_stdout_and_holds_every_number(done: tuple[Path, dict[str, Any]]) -> None:
    _, content = done
    assert Path(content["report"]) == Path("out/site/figure-1.html")
    (figure,) = content["experiments"]
    assert figure["claims"] == []  # at smoke scale nothing is judged
    assert len(figure["checkpoints"]) == 2 * 2 * 3 + 2 * (1 + 2 * 3 + 2)  # and a start, two paces, a control
    for row in figure["checkpoints"]:
        assert row["loss"] > row["kl"] > 0
        assert 0 < row["accuracy"] <= 1
        assert row["trace"] > 0
        assert min(row["kl_error"], row["trace_error"], row["accuracy_error"]) > 0
    assert 0 < figure["references"][0]["chance_accuracy"] < figure["references"][0]["posterior_accuracy"]
    assert content["failures"] == figure["failures"] == []


def test_every_reference_of_every_page_leads_somewhere_in_the_site(done: tuple[Path, dict[str, Any]]) -> None:
    site = done[0] / "site"
    pages = {path: References(path.read_text()) for path in site.glob("*.html")}
    names = sorted(path.stem for path in pages)
    assert [names[0], names[1], names[3]] == ["figure-1", "index", "paper-and-here"]
    assert re.fullmatch("language-[0-9a-f]{8}", names[2])
    for path, references in pages.items():
        assert len(path.read_text()) < 3e5  # the charts' JavaScript is not in it
        assert len(references.places) > 5
        for place in references.places:
            file, _, name = place.partition("#")
            target = (path.parent / file).resolve() if file else path
            assert target.is_relative_to(site.resolve()), place
            assert target.is_file(), place
            assert not name or name in pages[target].names
    reached = {place for references in pages.values() for place in references.places}
    assert {path.name for path in pages} <= reached


def test_the_numbers_on_the_pages_are_those_of_the_json(done: tuple[Path, dict[str, Any]]) -> None:
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
            assert on_page[name] == shown(row[name], row.get(f"{name}_error"))
            assert float(on_page[name].split(" ± ")[0]) == pytest.approx(row[name], rel=0.1)
    assert "--runs width-16-seed-1" in page
    folder = output / "site" / "runs" / figure["checkpoints"][0]["folder"]
    records = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    assert figure["checkpoints"][0]["kl"] in [record["value"] for record in records]
    assert json.loads((folder / "specification.json").read_text())["seed"] == 1


def test_each_run_is_listed_once_and_shown_by_the_beginning_of_its_name(
    done: tuple[Path, dict[str, Any]],
) -> None:
    output, content = done
    listed = isoloss("runs", str(output), "--json", folder=output)
    runs = json.loads(listed.stdout)["runs"]
    folders = {row["folder"] for row in content["experiments"][0]["checkpoints"]}
    assert sorted(run["run"] for run in runs) == sorted(folders)
    named = isoloss("show", runs[0]["run"][:8], "--results", str(output), "--json", folder=output)
    assert named.returncode == 0, named.stderr
    assert json.loads(named.stdout)["run"] == runs[0]["run"]


def test_one_run_interrupted_and_started_again_ends_with_the_same_bits(
    done: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "isoloss.cli", *SMOKE, *ONE, "--output", "out", "--json"]
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
    resumed = isoloss(*SMOKE, *ONE, "--output", "out", "--json", folder=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    expected = [row for row in done[1]["experiments"][0]["checkpoints"] if row["run"] == "width-32-seed-2"]
    assert json.loads(resumed.stdout)["experiments"][0]["checkpoints"] == expected
    assert "1 of 12 runs are complete" in (tmp_path / "out" / "site" / "figure-1.html").read_text()


def test_a_run_that_fails_is_named_everywhere_and_the_others_stay_as_they_are(
    done: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    output = tmp_path / "out"
    shutil.copytree(done[0], output)
    checkpoints = done[1]["experiments"][0]["checkpoints"]
    folder = next(row["folder"] for row in checkpoints if row["run"] == ONE[1])
    shutil.rmtree(output / "runs" / folder / "measured")
    (output / "runs" / folder / "specification.json").write_text("{}")
    kept = [path for path in output.rglob("*") if path.is_file() and path.suffix in (".safetensors", ".pt")]
    before = {path: path.stat().st_mtime_ns for path in kept}
    result = isoloss(*SMOKE, "--output", "out", "--json", folder=tmp_path)
    assert result.returncode == 1
    content = json.loads(result.stdout)
    (failure,) = content["failures"]
    assert failure["job"] == "figure-1 width-32-seed-2"
    assert "holds another run" in failure["text"]
    assert "figure-1 width-32-seed-2 failed: " in result.stderr
    for page in ("figure-1.html", "index.html"):
        assert "figure-1 width-32-seed-2 failed: " in (output / "site" / page).read_text()
    others = [row for row in checkpoints if row["run"] != ONE[1]]
    assert content["experiments"][0]["checkpoints"] == others
    assert len(before) > 10
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("figure-1", "--language", "nowhere.pcfg"), "nowhere.pcfg"),
        (("figure-1", "--task", "prefix-3"), "no task 'prefix-3'"),
        (("all", "--task", "prefix-4"), "go with figure-1, drift, drift-limits"),
        (("figure-1", "--settings", "0.2:32,0.4:8"), "the learning rates and batches of drift"),
        (("drift", "--settings", "0.2:32"), "at least two learning rates or batches"),
        (("figure-1", "--runs", "width-1"), "no run of figure-1 is called 'width-1'; did you mean 'width-"),
        (("figure-1", "--processes", "0"), "--processes must be at least 1"),
        (("figure-1", "--maximum-length", "5"), "--maximum-length needs --language"),
        (("figure-1", "--output", "file/below"), "cannot write in file/below"),
        (("figure-1", "--device", "tpu"), "device"),
        (("figure-1", "figure-99"), "no experiment 'figure-99'; did you mean 'figure-"),
        (("zebra",), "no experiment 'zebra'; choose all, or among figure-1"),
        (("figure-1", "--scale", "huge"), "smoke"),
        (("figure-1", "--address", "head:6379"), "--address is for --on ray"),
        (("figure-1", "--on", "ray", "--processes", "2"), "--processes is for --on local"),
        (("figure-1", "--on", "slurm", "--hours", "0"), "some hours"),
        ((), "name what to reproduce: choose all, or among figure-1"),
    ],
)
def test_a_mistake_is_one_sentence_before_any_work(
    arguments: tuple[str, ...],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as leaving:
        main(["reproduce", "--scale", "smoke", *arguments])
    told = capsys.readouterr()
    assert leaving.value.code == 2
    assert says in told.err
    assert "Traceback" not in told.err
    # The command line's own parser frames what it has to say.
    assert len(told.err.strip().splitlines()) == 1 or "huge" in arguments
    assert told.out == ""
    assert not (tmp_path / "results").exists()


def test_a_task_that_the_words_settle_needs_a_word_of_the_users_own(
    tmp_path: Path,
) -> None:
    grammar = str(tmp_path / "easy.pcfg")
    lines = ["S -> X [0.5] | Y [0.5]", "X -> A A [1]", "Y -> B B [1]", "A -> 'a' [1]", "B -> 'b' [1]"]
    Path(grammar).write_text("\n".join(lines))
    asked = ReproduceOptions(("figure-1",), "laptop", tmp_path, language=Path(grammar))
    with pytest.raises(BadInput, match="no task of the language has room"):
        choice(asked)
    with pytest.raises(BadInput, match=r"prefix-2 has no room.*; choose another language, or give --any"):
        choice(replace(asked, task="prefix-2"))
    chosen = choice(replace(asked, any_task=True))
    assert ("downstream task", "prefix-2") in chosen.experiments[0].settings
    again = command_again(replace(asked, any_task=True), chosen.experiments[0], chosen.runs[0])
    assert again.endswith(" --any-task")
    # The smoke scale shows that everything runs, whatever the language.
    choice(replace(asked, scale="smoke"))


def test_a_dry_run_tells_the_cost_of_the_paper_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as leaving:
        main(["reproduce", "figure-1", "--scale", "paper", "--dry-run", "--json", "--runs", *EXTREMES])
    assert leaving.value.code == 0
    content = json.loads(capsys.readouterr().out)
    families = content["families"]
    assert [family["model"] for family in families] == ["transformer 64 × 1", "transformer 1536 × 24"]
    assert [family["runs"] for family in families] == [3] * 2
    assert families[-1]["hours_a100"] > families[0]["hours_a100"] > 0
    minutes = 60 * families[0]["hours_a100"] * 19.5 / 67 / 3  # three seeds
    assert families[0]["minutes_a_run_h100"] == pytest.approx(minutes)
    # The paper: "transformers from 2M to 950M".
    assert 0.6e9 < families[-1]["parameters"] < 1.0e9
    assert content["total"]["runs"] == 6
    told = {(setting["of"], setting["name"]): setting for setting in content["settings"]}
    assert told["PCFG (A.1)", "words a sentence"]["ours"].startswith("17.0")
    assert told["Pre-training (A.5)", "batch"]["paper"] == told["Pre-training (A.5)", "batch"]["ours"]
    assert not {of for of, _ in told} & {"HMM (A.1, A.4)", "SGD (B.2)", "Real text (A.2, Section 4)"}
    assert content["total"]["operations"] == pytest.approx(sum(f["operations"] for f in families))
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_can_time_the_models_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cost_table, "SECONDS_A_FAMILY", 0.02)
    # A grammar, and a causal model that has yet to be trained: neither is made for this.
    names = ("figure-1", "figure-2")
    assert (
        reproduce_experiments(ReproduceOptions(names, "smoke", None, dry_run=True, measure=True, json=True))
        == 0
    )
    families = json.loads(capsys.readouterr().out)["families"]
    for family in families:
        assert family["not_measured"] is None
        assert family["hours_measured"] > 0 < family["share_measured"]
    assert reproduce_experiments(ReproduceOptions(names, "smoke", None, dry_run=True, measure=True)) == 0
    assert "hours measured here" in " ".join(capsys.readouterr().out.split())
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BadInput, match=r"--measure goes with --dry-run"):
        choice(ReproduceOptions(names, "smoke", None, measure=True))


def test_a_model_too_large_to_time_is_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise BadInput("a step needs about 400 GB")

    monkeypatch.setattr(cost_table, "run_throughput", refuse)
    chosen = choice(ReproduceOptions(("figure-1",), "smoke", None, dry_run=True, measure=True))
    rows = cost_table.cost_rows(chosen.experiments, chosen.runs, this_machine(), "cpu", silent)
    assert {row["not_measured"] for row in rows} == {"a step needs about 400 GB"}
    assert {row["hours_measured"] for row in rows} == {None}


def test_what_failed_is_told_though_the_site_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def full(*arguments: object) -> None:
        raise IsolossError("cannot write in site: No space left on device")

    failed = Results((), Outcome((Notice("seed-1", "no space"),), ()), 0.0)
    monkeypatch.setattr(reproduction, "choice", lambda request: Choice((), (), ()))
    monkeypatch.setattr(reproduction, "carry_out_experiments", lambda *arguments, **named: failed)
    monkeypatch.setattr(reproduction, "write_whole_site", full)
    with pytest.raises(IsolossError, match="No space left"):
        reproduce_experiments(ReproduceOptions(("figure-1",), "smoke", tmp_path))
    assert "seed-1 failed: no space" in capsys.readouterr().err
