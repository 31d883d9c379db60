"""Stored runs and what is measured of them as JSON."""

from dataclasses import asdict
from typing import Any

from isoloss.experiments.stored_run import StoredRun


def run_as_json(run: StoredRun) -> dict[str, Any]:
    """What a run is, how far it is, and its last numbers."""
    return {
        "run": run.name,
        "folder": str(run.folder),
        "names": run.names,
        "labels": run.plan.get("labels", {}),
        "state": run.state,
        "state_in_words": run.state_in_words,
        "step": run.step,
        "steps": run.planned_steps,
        "specification": run.specification,
        "records": [asdict(record) for record in run.last_records],
    }


def whole_run_as_json(run: StoredRun) -> dict[str, Any]:
    """The same with its plan, and every checkpoint with every record."""
    checkpoints = [
        {
            "step": checkpoint.step,
            **{
                key: checkpoint.content.get(key) for key in ("training_loss", "readings", "versions", "files")
            },
            "records": [asdict(record) for record in checkpoint.records],
        }
        for checkpoint in run.checkpoints
    ]
    return run_as_json(run) | {"plan": run.plan, "checkpoints": checkpoints}
