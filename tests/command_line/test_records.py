import json
import shutil
from pathlib import Path

import pytest
from called import Capture, answer, output_of, refused

from hand_made_runs import write_run
from isoloss.results.measurement_store import measurements_at
from isoloss.results.record import Record
from isoloss.results.store import write_sealed


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A finished run and an unfinished one, named as runs are."""
    output = tmp_path / "results"
    for name, steps in (("a" * 16, (10, 20, 40)), ("b" * 16, (10,))):
        write_run(output, name, steps=steps)
        folder = output / "runs" / name
        for place in ("a", "b"):
            settings = {"step": steps[-1], "measured_on": place * 16}
            record = Record("norm", 1.5, "", None, 3, 1, "c", settings)
            measurements_at(folder, name, steps[-1]).write(place * 16, [record])
        plan = {"name": "own", "digest": name + "0" * 48, "measured": []}
        write_sealed(folder / "plan.json", plan, "plan.json")
    return output


def test_what_is_packed_and_what_is_not_is_said_and_unpacked_runs_are_listed(
    results: Path, tmp_path: Path, capsys: Capture
) -> None:
    file, other = tmp_path / "a.parquet", tmp_path / "other"
    written = output_of(answer(capsys, "records", "pack", results, file))
    assert written.splitlines() == [
        f"{file}: 2 records of 1 finished runs",
        "left out: checkpoints, references, and the data of language pages; all of these can be recomputed",
        "left out: per-sentence values of 2 records (none stored, or more than 512)",
        "left out: 1 runs (bbbbbbbb is unfinished: trained to step 10 of 40)",
    ]
    for said in ("1 runs, records only", "1 runs were already there"):
        assert said in answer(capsys, "records", "unpack", file, other)[1]
    (listed,) = json.loads(answer(capsys, "runs", other, "--json")[1])["runs"]
    assert (listed["run"], listed["state"], len(listed["records"])) == ("a" * 16, "complete", 2)
    assert "step 40, training loss 2.5 nats" in answer(capsys, "show", "aaaa", "--results", other)[1]


def test_a_run_that_is_there_and_damaged_is_named_when_unpacking(
    results: Path, tmp_path: Path, capsys: Capture
) -> None:
    file, other = tmp_path / "a.parquet", tmp_path / "other"
    for name in ("pack", "unpack"):
        answer(capsys, "records", name, *((results, file) if name == "pack" else (file, other)))
    run = other / "runs" / ("a" * 16)
    damaged = next(run.rglob("*.jsonl"))
    damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
    code, out, err = answer(capsys, "records", "unpack", file, other)
    assert (code, "1 runs were already there" in out) == (1, True)
    assert f"{damaged}: line 1 is not a record" in err
    assert f"delete the file to measure again; for what was packed, delete {run} and unpack again" in err
    shutil.rmtree(run)
    run.mkdir()
    code, _, err = answer(capsys, "records", "unpack", file, other)
    assert (code, f"{run} is no run; for what was packed, delete {run} and unpack again" in err) == (1, True)
    run.rmdir()
    assert answer(capsys, "records", "unpack", file, other)[0] == 0


def test_mistakes_are_one_sentence(results: Path, tmp_path: Path, capsys: Capture) -> None:
    told = refused(capsys, "records", "unpack", tmp_path / "none.parquet", tmp_path / "out")
    assert told.startswith("isoloss: there is no file")
    pack = ("records", "pack", results)
    assert refused(capsys, *pack, tmp_path) == f"isoloss: {tmp_path} is a folder; name a file\n"
    shutil.rmtree(results / "runs")
    told = refused(capsys, *pack, tmp_path / "a.parquet")
    assert told.startswith("isoloss: there is no run in")
