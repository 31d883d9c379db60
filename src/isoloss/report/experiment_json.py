"""An experiment's numbers as JSON: what its page shows, unrounded."""

import dataclasses
import math
from typing import Any

import polars as pl

from isoloss.experiments.claims import Judgement
from isoloss.experiments.experiment_result import ExperimentResult


def result_as_json(result: ExperimentResult) -> dict[str, Any]:
    """Claims, checkpoints, references, failures and notices; what is not a number is null."""
    experiment, table = result.experiment, result.table
    of_runs = pl.col("step").is_not_null()
    return {
        "name": experiment.name,
        "title": experiment.title,
        "claims": [_judgement(judged) for judged in result.judgements],
        "checkpoints": _rows(table.filter(of_runs)) if not table.is_empty() else [],
        "references": _rows(table.filter(~of_runs)) if not table.is_empty() else [],
        "paper": dict(experiment.paper_numbers),
        "settings": dict(experiment.settings),
        "failures": [dataclasses.asdict(failure) for failure in result.outcome.failures],
        "notices": [dataclasses.asdict(notice) for notice in result.outcome.notices],
    }


def _judgement(judged: Judgement) -> dict[str, Any]:
    claim = judged.claim
    said = {field.name: getattr(claim, field.name) for field in dataclasses.fields(claim)}
    found = {field.name: getattr(judged, field.name) for field in dataclasses.fields(judged)}
    del said["statistic"], found["claim"]
    said["claimed"] = {"above": _plain(claim.claimed.low), "below": _plain(claim.claimed.high)}
    return {name: _plain(value) for name, value in (said | found).items()}


def _rows(table: pl.DataFrame) -> list[dict[str, Any]]:
    """A row without the columns that only other runs' rows have."""
    return [
        {name: _plain(value) for name, value in row.items() if value is not None} for row in table.to_dicts()
    ]


def _plain(value: object) -> object:
    """JSON knows no nan and no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
