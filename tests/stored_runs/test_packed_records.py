import json
import os
import shutil
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from packed_runs import Packed, measured
from transformers import PreTrainedModel

from isoloss.errors import BadInput
from isoloss.experiments.experiment_jobs import experiment_jobs
from isoloss.experiments.experiment_result import carry_out_experiments, gathered
from isoloss.experiments.planned_folder import is_complete, is_records_alone
from isoloss.experiments.planned_run import Continued
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.progress import silent
from isoloss.results.store import json_digest, read_sealed, write_sealed
from isoloss.stored_runs import packed_records
from isoloss.stored_runs.packed_records import MOST_VALUES, pack_records, unpack_records
from isoloss.stored_runs.run_comparison import differences_at_steps
from isoloss.stored_runs.stored_run import find_run, full_names, stored_run
from jobs_in_turn import in_turn
from norm_experiments import LANGUAGE, experiment, planned


def test_a_run_comes_back_with_every_record_and_is_not_computed_again(packed: Packed, tmp_path: Path) -> None:
    output, file, log = packed
    before = log.read_text()
    both = experiment(measured(1, log), measured(2, log))
    assert len(unpack_records(file, tmp_path).made) == 2
    for run in both.runs:
        assert is_complete(run, tmp_path)
        assert is_records_alone(run, tmp_path)
        assert not is_records_alone(run, output)
        assert not list(run.folder(tmp_path).rglob("*.safetensors"))
    (there,), (here,) = gathered([both], output), carry_out_experiments([both], tmp_path, in_turn).experiments
    assert here.outcome.failures == ()
    assert log.read_text() == before
    assert here.table.equals(there.table)
    ours, theirs = (stored_run(both.runs[0].folder(folder)) for folder in (tmp_path, output))
    assert ours.state == theirs.state == "complete"
    assert ours.last_records == theirs.last_records
    assert [each.content["versions"] for each in ours.checkpoints] == [
        each.content["versions"] for each in theirs.checkpoints
    ]
    assert (ours.plan, ours.specification) == (theirs.plan, theirs.specification)


def test_values_sentence_by_sentence_are_there_where_they_are_few(packed: Packed, tmp_path: Path) -> None:
    _, file, log = packed
    unpack_records(file, tmp_path)
    runs = [stored_run(measured(seed, log).folder(tmp_path)) for seed in (1, 2)]
    paired = {(each.first.n, each.paired) for each in differences_at_steps(*runs)}
    assert {(6, True), (MOST_VALUES + 1, False)} <= paired


def test_a_file_without_values_has_all_else(packed: Packed, tmp_path: Path) -> None:
    output, file, _ = packed
    told = pack_records(output, tmp_path / "small.parquet", most_values=0)
    assert told.without_values == told.records
    pack_records(output, tmp_path / "some.parquet", most_values=6)
    some = pl.read_parquet(tmp_path / "some.parquet").filter(pl.col("sentence_values").is_not_null())
    assert set(some["n"]) == {6}
    small, whole = (pl.read_parquet(each) for each in (tmp_path / "small.parquet", file))
    assert small.drop("sentence_values").equals(whole.drop("sentence_values"))


def test_what_is_there_is_kept_and_what_was_packed_can_be_packed_again(
    packed: Packed, tmp_path: Path
) -> None:
    output, file, _ = packed
    unpack_records(file, tmp_path / "a")
    again = unpack_records(file, tmp_path / "a")
    assert (len(again.made), len(again.there)) == (0, 2)
    assert unpack_records(file, output).made == ()
    pack_records(tmp_path / "a", tmp_path / "again.parquet")
    assert pl.read_parquet(tmp_path / "again.parquet").equals(pl.read_parquet(file))


@pytest.mark.thorough
def test_what_is_not_ascii_is_packed_in_any_locale(packed: Packed, tmp_path: Path) -> None:
    there, here, file = tmp_path / "there", tmp_path / "here", tmp_path / "records.parquet"
    folder = measured(1, packed.log).folder(there)
    shutil.copytree(measured(1, packed.log).folder(packed.output), folder)
    write_sealed(folder / "plan.json", stored_run(folder).plan | {"name": "η × 2"}, "plan.json")
    other = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "isoloss", "records", "pack", str(there), str(file)]
    subprocess.run(command, env=os.environ | other, check=True)
    unpack_records(file, here)
    assert stored_run(here / "runs" / folder.name).plan["name"] == "η × 2"


def test_a_further_quantity_trains_the_run_and_measures_that_alone(packed: Packed, tmp_path: Path) -> None:
    log = tmp_path / "log"
    unpack_records(packed.file, tmp_path)
    run = measured(1, packed.log)
    further = replace(run, measured=(*run.measured, *planned(1, log, 3.0).measured))
    assert not is_complete(further, tmp_path)
    (result,) = carry_out_experiments([experiment(further)], tmp_path, in_turn).experiments
    assert result.outcome.failures == ()
    assert log.read_text().splitlines() == ["3 at 2", "3 at 4"]
    assert not is_records_alone(further, tmp_path)


@pytest.mark.thorough
def test_a_run_that_goes_on_from_unpacked_records_has_its_origin_trained_anew(
    packed: Packed, tmp_path: Path
) -> None:
    _, file, log = packed
    unpack_records(file, tmp_path)
    before = log.read_text()
    origin = measured(1, log)
    after = replace(planned(8, tmp_path / "log", 1.0), continues=Continued(origin, 2))
    names = [job.name for job in experiment_jobs([], [after], tmp_path, "cpu")]
    assert names[1:] == [f"{run.name} {run.digest[:8]}" for run in (origin, after)]
    (result,) = carry_out_experiments([experiment(after)], tmp_path, in_turn).experiments
    assert result.outcome.failures == ()
    assert is_complete(after, tmp_path)
    assert log.read_text() == before  # the origin's own records are there
    # If the checkpoint is there, the origin needs no job.
    other = replace(after, seed=9)
    names = [job.name for job in experiment_jobs([], [other], tmp_path, "cpu")]
    assert names[1:] == [f"{other.name} {other.digest[:8]}"]
    assert LANGUAGE.digest == origin.language.digest


def test_where_training_comes_to_other_bits_what_was_unpacked_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another processor rounds otherwise, and what goes on from the origin then starts from other weights."""
    log, there, here = tmp_path / "log", tmp_path / "there", tmp_path / "here"
    origin = planned(1, log, 1.0)
    after = replace(planned(8, log, 1.0), continues=Continued(origin, 2))
    carry_out_experiments([experiment(origin, after)], there, in_turn)
    pack_records(there, tmp_path / "records.parquet")
    unpack_records(tmp_path / "records.parquet", here)
    build = PreLayerNormTransformer.build

    def rounded_otherwise(*args: Any, **options: Any) -> PreTrainedModel:
        model = build(*args, **options)
        with torch.no_grad():
            next(model.parameters()).mul_(1 + 2**-20)
        return model

    monkeypatch.setattr(PreLayerNormTransformer, "build", rounded_otherwise)
    log.unlink()
    further = replace(after, measured=(*after.measured, *planned(8, log, 3.0).measured))
    (result,) = carry_out_experiments([experiment(further)], here, in_turn).experiments
    assert result.outcome.failures == ()
    assert is_complete(further, here)
    # Both of the origin's steps, and each quantity of what goes on from it, on the weights that are here.
    assert sorted(log.read_text().splitlines()) == ["1 at 2"] * 2 + ["1 at 4"] * 2 + ["3 at 2", "3 at 4"]


def test_damaged_and_foreign_files_are_refused(packed: Packed, tmp_path: Path) -> None:
    file = packed.file
    whole = file.read_bytes()
    bad = tmp_path / "bad.parquet"
    refused = 0
    for place in range(0, len(whole), len(whole) // 15):
        content = bytearray(whole)
        content[place] ^= 0x10
        bad.write_bytes(content)
        out = tmp_path / f"out-{place}"
        try:
            unpack_records(bad, out)
        except BadInput:
            refused += 1
            assert not out.exists()
            continue
        # The bit is in a part that no reader uses, such as statistics.
        assert pl.read_parquet(bad).equals(pl.read_parquet(file))
        shutil.rmtree(out)
    assert refused >= 4
    pl.DataFrame({"a": [1]}).write_parquet(bad)
    with pytest.raises(BadInput, match=r"bad\.parquet is damaged, or no file of records"):
        unpack_records(bad, tmp_path)


@pytest.mark.parametrize("column", ["run", "measurement", "language_file"])
def test_a_name_that_leads_out_of_the_folder_is_refused(column: str, packed: Packed, tmp_path: Path) -> None:
    frame = pl.read_parquet(packed.file).with_columns(pl.lit("../../outside").alias(column))
    bad = written(frame, tmp_path / "bad.parquet")
    with pytest.raises(BadInput, match="that isoloss did not pack"):
        unpack_records(bad, tmp_path / "results")
    assert not (tmp_path / "outside").exists()


def written(frame: pl.DataFrame, file: Path) -> Path:
    """A file of records whose digest is right, whatever is in it."""
    said = {"format": "1", "isoloss": "1", "digest": packed_records._digest(frame, silent)}
    frame.write_parquet(file, metadata={"isoloss": json.dumps(said)})
    return file


def test_a_column_that_this_version_does_not_pack_is_refused(packed: Packed, tmp_path: Path) -> None:
    frame = pl.read_parquet(packed.file)
    assert unpack_records(written(frame, tmp_path / "good.parquet"), tmp_path / "good").made
    with pytest.raises(BadInput, match=r"bad\.parquet is damaged, or no file of records"):
        unpack_records(
            written(frame.with_columns(more=pl.lit(1)), tmp_path / "bad.parquet"), tmp_path / "bad"
        )


def test_names_of_runs_are_packed_and_added_to_those_that_are_there(packed: Packed, tmp_path: Path) -> None:
    output, file, log = packed
    first, second = (measured(seed, log) for seed in (1, 2))
    unpack_records(file, tmp_path)
    names = full_names(stored_run(first.folder(tmp_path)))
    assert names == full_names(stored_run(first.folder(output))) != []
    assert find_run(names[0], tmp_path).name == first.digest[:16]
    (there,), (here,) = ((folder / "experiments").iterdir() for folder in (output, tmp_path))
    ours, theirs = (read_sealed(path, path.stem) for path in (here, there))
    assert ours["title"] == theirs["title"]
    # Not the unfinished run's, which is not packed.
    assert ours["runs"].keys() == {first.digest[:16], second.digest[:16]} < theirs["runs"].keys()
    write_sealed(here, ours | {"title": "own", "runs": {first.digest[:16]: "own", "a": "b"}}, here.stem)
    unpack_records(file, tmp_path)
    added = {second.digest[:16]: ours["runs"][second.digest[:16]]}
    assert read_sealed(here, here.stem)["runs"] == {first.digest[:16]: "own", "a": "b"} | added
    assert read_sealed(here, here.stem)["title"] == "own"
    here.write_text("{")
    unpack_records(file, tmp_path)
    assert here.read_text() == "{"
    told = pack_records(tmp_path, tmp_path / "again.parquet")
    assert [str(here) in sentence for sentence in told.damage] == [True]


@pytest.mark.parametrize(
    "names",
    [
        {"../../outside": {"title": "", "runs": {}}},
        {"a\0b": {"title": "", "runs": {}}},
        {"a": {"title": "", "runs": {"b": 5}}},
        {"a": {"title": 5}},
        {"a": {"runs": []}},
        {"a": 5},
        [5],
    ],
)
def test_names_that_were_not_packed_are_refused(names: object, packed: Packed, tmp_path: Path) -> None:
    frame = pl.read_parquet(packed.file)
    of_rows, bad = packed_records._digest(frame, silent), tmp_path / "bad.parquet"
    for said in (json_digest([of_rows, names]), of_rows):
        content = {"format": "1", "digest": said, "experiments": names}
        frame.write_parquet(bad, metadata={"isoloss": json.dumps(content)})
        with pytest.raises(BadInput, match=r"bad\.parquet is damaged, or no file of records"):
            unpack_records(bad, tmp_path / "results" / "below")
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.thorough
def test_rows_that_repeat_a_runs_texts_are_never_in_memory_all_together() -> None:
    frame = pl.DataFrame({"run": range(4000)}).with_columns(pl.lit("x" * 10_000).alias("plan"))
    at: list[float] = []
    tracemalloc.start()
    packed_records._digest(frame, lambda task, completed, total, message="": at.append(completed))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 15e6  # the rows are 40 MB
    assert at == [1000, 2000, 3000, 4000]
