"""`isoloss show`: everything about one run."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import Positional

from isoloss.command_line.terminal import print_table, starting
from isoloss.errors import Damaged
from isoloss.results.checkpoint import checkpoint_folders, holds_another, read_checkpoint

if TYPE_CHECKING:
    from isoloss.results.record import Record
    from isoloss.stored_runs.stored_run import StoredCheckpoint, StoredRun


@dataclass(frozen=True)
class ShowOptions:
    """Show one run: its specification, the versions behind it, every checkpoint with every number.

    Example: isoloss show 23e17441
    """

    run: Annotated[Positional[str], tyro.conf.arg(metavar="RUN")]
    """The run's folder, a prefix of its folder's name, or its name, such as "width-32-seed-1", or with the
    experiment "figure-1 width-32-seed-1"."""
    results: Path = Path("results")
    """Folder of results to search for the run."""
    json: bool = False
    """Print JSON."""


def show(options: ShowOptions) -> int:
    """Show it; returns 1 if something of it is damaged, which is named on stderr and left out, else 0."""
    with starting("show"):
        from isoloss.stored_runs.stored_run import find_run

    found = find_run(options.run, options.results)
    refuse_without_specification(found)
    code = max(report_damage([found]), _report_damaged_files(found))
    if options.json:
        print(json.dumps(whole_run_as_json(found), ensure_ascii=False))
        return code
    print("\n".join([str(found.folder), found.state_in_words, *_facts(found)]))
    for checkpoint in found.checkpoints:
        print(f"\n{_checkpoint_line(checkpoint)}")
        if checkpoint.records:
            rows = [
                (
                    quantity_in_words(each),
                    each,
                    each.n,
                    each.unit,
                    str(each.settings.get("measured_on", ""))[:8],
                )
                for each in checkpoint.records
            ]
            titles = ("quantity", "value", "n", "unit", "on")
            print_table(titles, rows, left=("quantity", "unit", "on"))
    return code


def _report_damaged_files(run: "StoredRun") -> int:
    """Name on stderr what is damaged beside a checkpoint's whole record, as weights are; 1 if anything is."""
    recorded = {each.step for each in run.checkpoints if each.content}
    code = 0
    for folder in checkpoint_folders(run.folder):
        try:
            if int(folder.name) in recorded:
                read_checkpoint(folder)
        except Damaged as error:
            print(error, file=sys.stderr)
            code = 1
    return code


def report_damage(runs: Sequence["StoredRun"]) -> int:
    """Name on stderr what is damaged of the runs, which are shown without it; 1 if anything is, else 0."""
    from isoloss.stored_runs.run_names import damaged_names
    from isoloss.stored_runs.stored_run import results_of

    sentences = [
        *damaged_names(results_of(run.folder) for run in runs),
        *(f"{damage}; what it held is left out" for run in runs for damage in run.damage),
    ]
    for sentence in sentences:
        print(sentence, file=sys.stderr)
    return 1 if sentences else 0


def refuse_without_specification(run: "StoredRun") -> None:
    """Raise Damaged if nothing is known of a run: its specification is damaged, or it holds another run."""
    if what := holds_another(run.folder):
        raise Damaged(f"{run.folder} {what}")
    if not run.specification:
        raise Damaged(
            f"{'; '.join(run.damage)}; the command that began the run in {run.folder} writes the "
            "specification anew, and computes nothing that is there"
        )


def _facts(run: "StoredRun") -> list[str]:
    """Names, specification, versions and plan, one line each."""
    from isoloss.results.record import settings_by_path
    from isoloss.stored_runs.stored_run import full_names

    def in_words(quantity: dict[str, object]) -> str:
        of_quantity = ", ".join(f"{path} {value}" for path, value in settings_by_path(quantity).items())
        return f"{quantity.get('is')} ({of_quantity})"

    lines = [f"planned as {name}" for name in full_names(run)]
    lines += ["", "specification"]
    lines += [f"  {path}: {value}" for path, value in settings_by_path(run.specification).items()]
    contents = [checkpoint.content for checkpoint in run.checkpoints]
    versions = [content["versions"] for content in contents if "versions" in content]
    for name in dict.fromkeys(name for each in versions for name in each):
        # A run may have been continued with other versions than it started with.
        several = " then ".join(dict.fromkeys(str(each.get(name)) for each in versions))
        lines += ([] if "versions" in lines else ["", "versions"]) + [f"  {name}: {several}"]
    if measured := run.plan.get("measured"):
        lines += ["", "measured"]
        lines += [f"  {each['measured_on'][:8]}: {in_words(each['quantity'])}" for each in measured]
    return lines


def _checkpoint_line(checkpoint: "StoredCheckpoint") -> str:
    parts = [f"step {checkpoint.step:,}"]
    if (loss := checkpoint.content.get("training_loss")) is not None:
        parts.append(f"training loss {loss:.5g} nats")
    parts += [f"{name} {value:.5g}" for name, value in checkpoint.content.get("readings", {}).items()]
    return ", ".join(parts)


def quantity_in_words(record: "Record") -> str:
    """A record's quantity, with its task, its part of the model or its strength.

    >>> from isoloss.results.record import Record
    >>> quantity_in_words(Record("linear_probe_accuracy", 0.9, "fraction", 0.1, 9, settings={"task": "root"}))
    'linear probe accuracy, root'
    """
    from isoloss.results.record import STRENGTHS

    more = [str(record.settings[key]) for key in ("weights", "task", "group") if key in record.settings]
    more += [f"{key} {record.settings[key]:g}" for key in STRENGTHS if key in record.settings]
    return ", ".join([record.quantity.replace("_", " "), *more])


def run_as_json(run: "StoredRun") -> dict[str, Any]:
    """What a run is, its progress, and its last numbers."""
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


def whole_run_as_json(run: "StoredRun") -> dict[str, Any]:
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
