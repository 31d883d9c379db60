"""The records of finished runs in one Parquet file, without checkpoints, and back into a folder."""

import hashlib
import io
import json
import math
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

import isoloss
from isoloss.errors import BadInput, Damaged, raised_as
from isoloss.files import alone_in, complete_folder, remove_unfinished, write_atomically
from isoloss.progress import Progress, silent
from isoloss.results.checkpoint import PLAN_FILE, SPECIFICATION_FILE, checkpoint_folders
from isoloss.results.measurement_store import measurements_at
from isoloss.results.record import Record, value_name
from isoloss.results.run_folder import Json, known_checkpoints, write_finished
from isoloss.results.store import json_digest, sealed_text
from isoloss.stored_runs.copied_run import CopiedRun, copied_runs
from isoloss.stored_runs.run_names import RunNames, damaged_names, names_as_json, names_from_json
from isoloss.stored_runs.stored_run import StoredRun, results_of, runs_in, stored_run

FORMAT = "1"
METADATA, NAMES = "isoloss", "experiments"
MOST_VALUES = 512
"""The most sentences of a measurement for which per-sentence values are packed, by default."""

LANGUAGE_FILES = ("language.pcfg", "language.json")
SCHEMA: dict[str, Any] = {
    "run": pl.String,
    "step": pl.Int64,
    "measurement": pl.String,
    "quantity": pl.String,
    "value": pl.Float64,
    "unit": pl.String,
    "standard_error": pl.Float64,
    "n": pl.Int64,
    "seed": pl.Int64,
    "checkpoint": pl.String,
    "settings": pl.String,
    "sentence_values": pl.List(pl.Float64),
    "specification": pl.String,
    "plan": pl.String,
    "language_file": pl.String,
    "language": pl.String,
    "checkpoints": pl.String,
}
"""One row per record; from `specification` on, the run's files, the same in all of its rows."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Packed:
    """The result of `pack_records`: runs and records, and what it left out.

    `left_out` says of each run that is left out why; `damage` has a sentence for each damaged file.
    `without_values` counts the records without per-sentence values in it, since there were none or too many.
    """

    runs: int
    records: int
    left_out: dict[str, str]
    damage: tuple[str, ...]
    without_values: int


@dataclass(frozen=True)
class Unpacked:
    """The result of `unpack_records`: runs created, and those that existed and were left unchanged.

    `damage` has a sentence for each damaged file of the latter and of experiments' names.
    """

    made: tuple[str, ...]
    there: tuple[str, ...]
    damage: tuple[str, ...] = ()


def pack_records(
    results: Path, file: Path, most_values: int = MOST_VALUES, progress: Progress = silent
) -> Packed:
    """Write the records of all finished runs of a folder of results into one Parquet file.

    Checkpoints, language descriptions, references, and per-sentence values of measurements on more than
    `most_values` sentences are left out; the latter would be nearly all of the file. Of a run that is in
    several folders, what was measured in any of them is packed. The file's metadata have experiments' names
    for the runs, the format, isoloss's version and a digest. Raises BadInput if there is no run, or if two
    copies of one differ; IsolossError if the file cannot be written.
    """
    every = runs_in(results)
    finished = [run for run in every if run.state == "complete" and run.plan]
    copied = copied_runs(finished)
    rows: list[Row] = []
    for done, run in enumerate(copied, start=1):
        rows += _rows(run, most_values)
        progress("packing runs", done, len(copied))
    packed = {row["run"] for row in rows}
    whole = {run.folder for run in finished if run.run in packed}
    outputs = dict.fromkeys(results_of(run.folder) for run in every)
    write_atomically(file, _file_of(rows, names_as_json(packed, outputs), progress))
    damage = [f"{each}; its folder is left out" for run in every for each in run.damage]
    return Packed(
        len(packed),
        len(rows),
        {run.name: _why_left_out(run) for run in every if run.folder not in whole},
        (*damage, *damaged_names(outputs)),
        sum(row["sentence_values"] is None for row in rows),
    )


def _why_left_out(run: StoredRun) -> str:
    if run.state != "complete":
        return f"is {run.state_in_words}"
    return "has no records" if run.plan else f"has no {PLAN_FILE}"


def _file_of(rows: list[Row], names: Json, progress: Progress) -> bytes:
    """The rows as a Parquet file, with its format, isoloss's version, a digest and experiments' names."""
    frame = pl.DataFrame(rows, schema=SCHEMA)
    digest = _with_names(_digest(frame, progress), names)
    metadata: Json = {"format": FORMAT, "isoloss": isoloss.__version__, "digest": digest}
    metadata |= {NAMES: names} if names else {}
    content = io.BytesIO()
    frame.write_parquet(content, metadata={METADATA: json.dumps(metadata)})
    return content.getvalue()


def unpack_records(file: Path, results: Path, progress: Progress = silent) -> Unpacked:
    """Write the packed runs into a folder of results, each complete or absent; existing ones are kept.

    They count as complete there, so that nothing of theirs is computed again; a run that continues from one
    of them needs its checkpoint, for which it is trained again. Experiments' names for the runs are added to
    those that are there. Raises Damaged if the file is damaged or was not written by `pack_records`, OSError
    if it cannot be read, FolderHeld while another process works in the folder, IsolossError if that cannot be
    written.
    """
    made, there = [], []
    if not file.is_file():  # nor is a device or a pipe
        raise BadInput(f"there is no file {file}; name one that `isoloss records pack` wrote")
    content = file.read_bytes()
    with _naming(file):
        frame, names = _read(content, progress)
    with alone_in(results), _naming(file):
        remove_unfinished(results / "runs")
        runs = frame.partition_by("run", maintain_order=True)
        for done, part in enumerate(runs, start=1):
            rows = part.to_dicts()
            _refuse_other_files(rows, file)
            folder = results / "runs" / rows[0]["run"]
            if folder.exists():
                there.append(folder)
            else:
                with complete_folder(folder) as made_folder:
                    _write_run(rows, made_folder, folder.name)
                made.append(folder.name)
            progress("unpacking runs", done, len(runs))
        for each in names:
            each.add_to(results)
    damage = [f"{each}; {_advice(run)}" for run in there for each in _damage(run)]
    return Unpacked(tuple(made), tuple(each.name for each in there), (*damage, *damaged_names([results])))


def _advice(folder: Path) -> str:
    """What to do about damage to a run that is there: to delete checkpoints would cost their training."""
    if checkpoint_folders(folder):
        return "its checkpoints are here, from which `isoloss reproduce` mends what it can"
    return f"for what was packed, delete {folder} and unpack again"


def _damage(folder: Path) -> tuple[str, ...]:
    try:
        return stored_run(folder).damage
    except BadInput:
        return (f"{folder} is no run",)


def _rows(run: CopiedRun, most_values: int) -> Iterator[Row]:
    folder = run.first.folder
    texts = {name: (folder / name).read_text("utf-8") for name in (SPECIFICATION_FILE, PLAN_FILE)}
    if run.plan != run.first.plan:
        texts[PLAN_FILE] = sealed_text(run.plan, PLAN_FILE)
    language = next((name for name in LANGUAGE_FILES if (folder / name).exists()), None)
    checkpoints = [
        {key: value for key, value in checkpoint.content.items() if key != "specification"}
        for checkpoint in run.checkpoints
    ]
    of_run = {
        "specification": texts[SPECIFICATION_FILE],
        "plan": texts[PLAN_FILE],
        "language_file": language,
        "language": (folder / language).read_text("utf-8") if language else None,
        "checkpoints": json.dumps(checkpoints),
    }
    for checkpoint in run.checkpoints:
        for name, records, values in run.measurements(checkpoint.step):
            for record in records:
                found = values.get(value_name(record))
                yield {
                    "run": run.first.run,
                    "step": checkpoint.step,
                    "measurement": name,
                    **{name: getattr(record, name) for name in _PLAIN},
                    "settings": json.dumps(record.settings),
                    "sentence_values": None if found is None or len(found) > most_values else found.tolist(),
                    **of_run,
                }


_PLAIN = ("quantity", "value", "unit", "standard_error", "n", "seed", "checkpoint")


def _write_run(rows: list[Row], folder: Path, name: str) -> None:
    first = rows[0]
    write_atomically(folder / SPECIFICATION_FILE, first["specification"])
    write_atomically(folder / PLAN_FILE, first["plan"])
    if first["language_file"] is not None:
        write_atomically(folder / first["language_file"], first["language"])
    measurements: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        measurements.setdefault((row["step"], row["measurement"]), []).append(row)
    for (step, measurement), rows_of_it in measurements.items():
        records = [_record(row) for row in rows_of_it]
        values = {
            value_name(record): row["sentence_values"]
            for record, row in zip(records, rows_of_it, strict=True)
            if row["sentence_values"] is not None
        }
        measurements_at(folder, name, step).write(measurement, records, values)
    write_finished(folder, json.loads(first["checkpoints"]), name)


def _record(row: Row) -> Record:
    return Record(**{name: row[name] for name in _PLAIN}, settings=json.loads(row["settings"]))


def _read(content: bytes, progress: Progress) -> tuple[pl.DataFrame, list[RunNames]]:
    metadata = json.loads(pl.read_parquet_metadata(io.BytesIO(content))[METADATA])
    frame = pl.read_parquet(content)
    known = metadata["format"] == FORMAT and dict(frame.schema) == dict(pl.Schema(SCHEMA))
    names = metadata.get(NAMES, {})
    if not known or metadata["digest"] != _with_names(_digest(frame, progress), names):
        raise ValueError("it is not what was packed")
    return frame, names_from_json(names)


def _naming(file: Path) -> AbstractContextManager[None]:
    """Turn whatever is raised by content that `pack_records` does not write into Damaged."""
    said = f"{file} is damaged, or no file of records that this version of isoloss packed; pack it again"
    return raised_as(lambda _: Damaged(said))


def _digest(frame: pl.DataFrame, progress: Progress) -> str:
    """SHA-256 of all rows, one at a time: rows repeat their run's texts, a thousand times the file's size.

    Numbers enter as the shortest decimals that read back unchanged.
    """
    digest = hashlib.sha256()
    for place, row in enumerate(frame.iter_rows()):
        digest.update(("\n" * (place > 0) + json.dumps(row)).encode())
        if place % 1000 == 999 or place + 1 == len(frame):
            progress("checking records", place + 1, len(frame))
    return digest.hexdigest()


def _with_names(digest: str, names: Json) -> str:
    """The digest of the rows and of experiments' names, of which earlier versions packed none."""
    return json_digest([digest, names]) if names else digest


def _refuse_other_files(rows: list[Row], file: Path) -> None:
    """Refuse names that lead out of the run's folder, and a run that is not named after its plan.

    Raises an exception of any kind for texts that do not hold what readers of a run expect in them.
    """
    for row in rows:
        _of_kind(dict, row["settings"])
        if not math.isfinite(row["value"]):
            raise ValueError("a number is not finite")
    known_checkpoints(_of_kind(list, rows[0]["checkpoints"]))
    _of_kind(dict, rows[0]["specification"])
    name, languages = rows[0]["run"], {row["language_file"] for row in rows}
    plain = re.fullmatch("[0-9a-f]{16}", name) and languages <= {None, *LANGUAGE_FILES}
    plain = plain and all(re.fullmatch(r"[0-9a-f]{16}(-raw)?", row["measurement"]) for row in rows)
    if not plain or _of_kind(dict, rows[0]["plan"]).get("digest", "")[:16] != name:
        raise BadInput(f"{file} names a run {name!r} that isoloss did not pack; pack it again")


def _of_kind(kind: type, text: str) -> Any:
    content = json.loads(text)
    if not isinstance(content, kind):
        raise ValueError(f"it is no {kind.__name__}")
    return content
