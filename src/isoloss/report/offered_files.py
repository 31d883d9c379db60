"""Files that the site offers: a run's specification and its records in one file, and numbers as JSON."""

import dataclasses
import math
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import Markup

from isoloss.errors import Damaged
from isoloss.experiments.claims import Judgement
from isoloss.experiments.experiment import facts_of
from isoloss.experiments.experiment_result import ExperimentResult
from isoloss.experiments.planned_run import PlannedRun
from isoloss.files import write_atomically
from isoloss.results.checkpoint import SPECIFICATION_FILE
from isoloss.results.measurements import MEASURED_FOLDER
from isoloss.results.run_folder import read_run_folder

RECORDS_FILE = "records.jsonl"

JUDGED = ("effect", "low", "high", "confidence", "runs", "seeds", "p_value", "verdict", "seeds_needed")
"""What the JSON of a claim has of its judgement."""


def run_files(run: PlannedRun, output: Path) -> list[str]:
    """The names of the files that there are of a run; one that has not started has none."""
    folder = run.folder(output)
    begun, measured = (folder / SPECIFICATION_FILE).exists(), any(folder.glob(f"{MEASURED_FOLDER}/*/*.jsonl"))
    return [SPECIFICATION_FILE] * begun + [RECORDS_FILE] * measured


def run_folder(run: PlannedRun) -> str:
    """The location of the files relative to a page."""
    return f"runs/{run.digest[:16]}"


def write_run_files(run: PlannedRun, output: Path, site: Path) -> None:
    """Write a run's specification, and all its records in one file, into the site, without damaged ones.

    Raises IsolossError if it cannot be written.
    """
    described, records = read_run_folder(run.folder(output)), []
    folders = described.folder.glob(f"{MEASURED_FOLDER}/*")
    for step in sorted(int(path.name) for path in folders if path.name.isdecimal()):
        at = described.measurements(step)
        for name in at.names():
            with suppress(Damaged):
                at.records(name)
                records.append(at.file(name).read_bytes())
    if described.specification:
        content = (described.folder / SPECIFICATION_FILE).read_bytes()
        write_atomically(site / run_folder(run) / SPECIFICATION_FILE, content)
    if records:
        write_atomically(site / run_folder(run) / RECORDS_FILE, b"".join(records))


def json_link(name: str) -> Markup:
    """The path of the numbers of the page of that name."""
    return Markup('<p class="downloads"><a href="files/{}.json" download>JSON, unrounded</a></p>').format(
        name
    )


def result_as_json(result: ExperimentResult) -> dict[str, Any]:
    """Claims, checkpoints, references, failures and notices; anything that is not a finite number is null."""
    experiment, table = result.experiment, result.table
    of_runs = pl.col("step").is_not_null()
    return {
        "name": experiment.name,
        "title": experiment.title,
        "claims": [_judgement(judged) for judged in result.judgements],
        "checkpoints": _rows(table.filter(of_runs)) if not table.is_empty() else [],
        "references": _rows(table.filter(~of_runs)) if not table.is_empty() else [],
        "paper": _by_name(experiment.paper_numbers),
        "settings": _by_name(facts_of(experiment)),
        "seeds_left_out": list(result.left_out),
        "failures": [dataclasses.asdict(failure) for failure in result.outcome.failures],
        "notices": [dataclasses.asdict(notice) for notice in result.outcome.notices],
    }


def _by_name(facts: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Several facts of the same name, such as the values of a varied setting, are listed in order.

    >>> _by_name([("momentum", "0.5"), ("momentum", "0.9"), ("steps", "100")])
    {'momentum': '0.5; 0.9', 'steps': '100'}
    """
    values_of: dict[str, list[str]] = {}
    for name, value in facts:
        values_of.setdefault(name, []).append(value)
    return {name: "; ".join(values) for name, values in values_of.items()}


def _judgement(judged: Judgement) -> dict[str, Any]:
    claim = judged.claim
    stated = {field.name: getattr(claim, field.name) for field in dataclasses.fields(claim)}
    found = {name: getattr(judged, name) for name in JUDGED}
    del stated["statistic"]
    stated["claimed"] = {"above": _plain(claim.claimed.low), "below": _plain(claim.claimed.high)}
    return {name: _plain(value) for name, value in (stated | found).items()}


def _rows(table: pl.DataFrame) -> list[dict[str, Any]]:
    """A row without the columns that only other runs' rows have."""
    return [
        {name: _plain(value) for name, value in row.items() if value is not None} for row in table.to_dicts()
    ]


def _plain(value: object) -> object:
    """JSON has no nan and no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
