"""Runs that are in several folders: what is packed of them."""

import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from packed_runs import Packed, measured

from isoloss.errors import BadInput
from isoloss.results.measurement_store import measurements_at
from isoloss.results.record import Record
from isoloss.results.store import read_sealed, write_sealed
from isoloss.stored_runs.packed_records import pack_records, unpack_records
from isoloss.stored_runs.stored_run import stored_run
from thorough_cases import others_thorough


@pytest.mark.thorough
@pytest.mark.parametrize("copied_to", ["runs/-copy", "a/runs/-copy", "z/runs/-copy"])
def test_of_a_run_and_its_copies_what_was_measured_in_any_is_packed(
    copied_to: str, packed: Packed, tmp_path: Path
) -> None:
    """The files that describe it are those of the folder named after it, wherever the others are."""
    own, more = measured(1, packed.log).folder(packed.output), "0" * 16
    shutil.copytree(own, tmp_path / "runs" / own.name)
    copy = shutil.copytree(own, tmp_path / copied_to)
    settings = {"step": 2, "measured_on": more}
    record = Record("later", 1.0, "nats", 0.1, 9, settings=dict(settings))
    measurements_at(copy, own.name, 2).write(more, [record])
    write_sealed(copy / "plan.json", stored_run(copy).plan | {"name": "copy"}, "plan.json")
    assert pack_records(tmp_path, tmp_path / "one.parquet").runs == 1
    one, whole = pl.read_parquet(tmp_path / "one.parquet"), pl.read_parquet(packed.file)
    assert one.filter(measurement=more)["quantity"].to_list() == ["later"]
    assert one.filter(pl.col("measurement") != more).equals(whole.filter(run=own.name))


def copies_measured_apart(packed: Packed, folder: Path) -> tuple[Path, Path]:
    """Two folders of one run: in the second, the last of its quantities was neither planned nor measured."""
    name = measured(1, packed.log).folder(packed.output).name
    here, there = (
        shutil.copytree(packed.output / "runs" / name, folder / place / "runs" / name) for place in "ab"
    )
    plan = stored_run(there).plan
    lost = plan["measured"].pop()
    write_sealed(there / "plan.json", plan, "plan.json")
    for path in there.glob(f"measured/*/{lost['measured_on']}.*"):
        path.unlink()
    return here, there


@pytest.mark.parametrize("first", others_thorough([False, True]))
def test_no_record_of_a_run_in_two_folders_is_lost(first: bool, packed: Packed, tmp_path: Path) -> None:
    here, _ = copies_measured_apart(packed, tmp_path)
    if not first:
        here.parents[1].rename(tmp_path / "c")
    told = pack_records(tmp_path, tmp_path / "both.parquet")
    assert (told.runs, told.left_out) == (1, {})
    unpack_records(tmp_path / "both.parquet", tmp_path / "unpacked")
    whole = pl.read_parquet(packed.file).filter(run=here.name)
    both = pl.read_parquet(tmp_path / "both.parquet")
    assert both.drop("plan").equals(whole.drop("plan"))
    own, unpacked = (
        stored_run(folder / "runs" / here.name) for folder in (packed.output, tmp_path / "unpacked")
    )
    assert unpacked.plan == own.plan
    assert unpacked.last_records == own.last_records


def test_values_that_one_copy_lacks_are_taken_from_the_other(packed: Packed, tmp_path: Path) -> None:
    pack_records(packed.output, tmp_path / "small.parquet", most_values=0)
    unpack_records(tmp_path / "small.parquet", tmp_path / "both" / "a")
    shutil.copytree(packed.output, tmp_path / "both" / "b")
    pack_records(tmp_path / "both", tmp_path / "both.parquet")
    assert pl.read_parquet(tmp_path / "both.parquet").equals(pl.read_parquet(packed.file))


def test_copies_that_differ_are_refused_with_both_paths(packed: Packed, tmp_path: Path) -> None:
    here, there = copies_measured_apart(packed, tmp_path)
    path = min(there.glob("measured/000004/*.npz")).with_suffix(".jsonl")
    at = measurements_at(there, there.name, 4)
    records, values = at.records(path.stem), at.values(path.stem)
    at.write(path.stem, [replace(records[0], value=7.0), *records[1:]], values)
    with pytest.raises(BadInput, match=f"{here}.*{path.name} and {path} are one measurement .* and differ"):
        pack_records(tmp_path, tmp_path / "both.parquet")
    at.write(path.stem, records, {name: each + 1 for name, each in values.items()})
    with pytest.raises(BadInput, match="and differ"):
        pack_records(tmp_path, tmp_path / "both.parquet")
    at.write(path.stem, records, values)
    checkpoint = there / "steps" / "000002" / "checkpoint.json"
    content = read_sealed(checkpoint, checkpoint.name)
    content["files"]["model.safetensors"] = "0" * 64
    write_sealed(checkpoint, content, checkpoint.name)
    with pytest.raises(
        BadInput, match=f"{here} and {there} are one run, and its weights differ from step 2 on"
    ):
        pack_records(tmp_path, tmp_path / "both.parquet")


def test_a_copy_that_is_unfinished_is_named_among_what_is_left_out(packed: Packed, tmp_path: Path) -> None:
    _, there = copies_measured_apart(packed, tmp_path)
    shutil.rmtree(there / "measured" / "000002")
    told = pack_records(tmp_path, tmp_path / "both.parquet")
    assert (told.runs, list(told.left_out)) == (1, [there.name])
