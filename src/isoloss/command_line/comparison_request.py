"""`isoloss compare`: checks the request, measures what is missing, writes the report."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from isoloss.command_line.compare import CompareOptions
from isoloss.command_line.comparison_plan import PlanSettings, Sources, planned_stages, read_sources
from isoloss.command_line.options import (
    refuse_unwritable,
    repeated_command,
    trace_stopping,
    usable_mask_rate,
    usable_seed,
)
from isoloss.command_line.terminal import progress_display, table_console
from isoloss.curvature.stopping import Stopping
from isoloss.device import usable_device
from isoloss.errors import BadInput
from isoloss.files import only_process_in, remove_unfinished
from isoloss.measurements.checkpoint_comparison import Comparison, Measured, Stage, carry_out
from isoloss.measurements.compared_checkpoints import (
    ACCURACIES,
    FINE_TUNING,
    LOSS,
    PROBE,
    TRACE,
    Checkpoint,
    Models,
    read_checkpoints,
)
from isoloss.measurements.on_sentences import quantity_named
from isoloss.measurements.verdicts import PairVerdict, verdicts
from isoloss.models.loading import refuse_named_twice
from isoloss.report.comparison_page import PageDetails, comparison_page, pair_sentences
from isoloss.report.page import write_lone_page
from isoloss.results.measurements import Measurements
from isoloss.results.record import as_text, write_records

TITLES = {LOSS: "loss (nats)", TRACE: "Fisher trace", PROBE: "linear probe", FINE_TUNING: "fine-tuned"}
LOSS_SENTENCES = 10_000
"""The loss of a sentence has a standard deviation of about 1 nat, so ten thousand give the mean to about 0.01
nats, and differences between models, which find the same sentences hard, far more precisely."""


def _loss_stopping(request: CompareOptions) -> Stopping:
    """When a model's loss is known well enough."""
    return Stopping(None, request.sentences or LOSS_SENTENCES, request.seconds)


def _plan_settings(request: CompareOptions) -> PlanSettings:
    """How everything is measured."""
    of_trace = trace_stopping(request.relative_error, request.sentences, request.seconds)
    return PlanSettings(
        request.seed,
        request.mask_rate,
        _loss_stopping(request),
        of_trace,
        tuple(dict.fromkeys(request.quantity)),
        request.task_length,
        request.fine_tune,
    )


def measure_comparison(request: CompareOptions) -> int:
    """Carry out the request; returns 0 if everything was measured.

    Raises BadInput for what cannot be measured or compared, mostly before any long work.
    """
    _check(request)
    sources = read_sources(
        request.text,
        request.dataset,
        request.task,
        request.task_test,
        request.task_columns,
        request.task_examples,
    )
    models = Models(usable_device(request.device), getattr(torch, request.dtype), request.objective)
    store = Measurements(request.output.with_suffix(".measured"))
    with only_process_in(store.folder), progress_display() as progress:
        remove_unfinished(store.folder)
        checkpoints = read_checkpoints(request.models, models, sources.texts, progress)
        stages = planned_stages(_plan_settings(request), checkpoints, sources, models)
        report = partial(_write, request, checkpoints, sources, stages)
        measured = carry_out(stages, models, store, report, progress)
    comparison = Comparison(checkpoints, measured, sources.task)
    found = verdicts(comparison, request.same_loss)
    if request.json:
        print(comparison_as_json(comparison, found, sources.notes, request.output))
    else:
        print_comparison(comparison, found, request.same_loss, request.output)
    return 0


def _write(
    request: CompareOptions,
    checkpoints: tuple[Checkpoint, ...],
    sources: Sources,
    stages: Sequence[Stage],
    measured: Measured,
) -> None:
    """Write the report and the records of what has been measured so far."""
    comparison = Comparison(checkpoints, measured, sources.task)
    details = PageDetails(
        settings=_settings(request, sources),
        notices=sources.notes,
        command=repeated_command("compare", request),
        same_loss=request.same_loss,
        complete=len(measured) == sum(map(len, stages)),
    )
    page = comparison_page(comparison, verdicts(comparison, request.same_loss), details)
    write_lone_page(page, request.output)
    records = request.output.with_suffix(".jsonl")
    write_records(records, comparison.records, records.name)


def _settings(request: CompareOptions, sources: Sources) -> tuple[tuple[str, str], ...]:
    rows = [("seed", str(request.seed)), ("precision", request.dtype), *sources.settings]
    if sources.corpus is not None:
        rows.append(("loss", f"on {_loss_stopping(request).sentences:,} sentences at most"))
    return tuple(rows)


def _check(request: CompareOptions) -> None:
    """Refuse what can be refused without a model."""
    if len(request.models) < 2:
        raise BadInput("name two checkpoints or more, folders or names on a hub, to compare them")
    refuse_named_twice(request.models)
    if request.text is not None and request.dataset is not None:
        raise BadInput("give --text or --dataset for loss and flatness, not both")
    if request.text is None and request.dataset is None and request.task is None:
        raise BadInput(
            "say what to compare on: --text FILE for loss and flatness, --task FILE for accuracy; "
            "two runs of a results folder are compared by `isoloss compare-runs`"
        )
    if request.task is None and (request.task_test or request.task_columns or request.fine_tune):
        raise BadInput("there is no task: give --task FILE, or leave the options of a task out")
    usable_seed(request.seed)
    usable_mask_rate(request.mask_rate)
    if not 0 < request.same_loss < 1:
        raise BadInput(f"--same-loss is a share of the loss, such as 0.01, not {request.same_loss}")
    if request.task_length < 8:
        raise BadInput(f"--task-length must leave at least 8 tokens of an example, not {request.task_length}")
    if request.output.suffix != ".html":
        raise BadInput(f"--output names an HTML file, such as comparison.html, not {request.output}")
    _plan_settings(request)
    for name in request.quantity:
        quantity_named(name, LOSS_SENTENCES, request.seed)
    usable_device(request.device)
    refuse_unwritable(request.output)


def print_comparison(
    comparison: Comparison, verdicts: Sequence[PairVerdict], same_loss: float, report: Path
) -> None:
    """A row per checkpoint, the conclusions for each pair, and the location of the report."""
    console = table_console()
    table = Table()
    table.add_column("checkpoint", overflow="fold")
    cells = {
        name: [_cell(comparison, each, name) for each in comparison.checkpoints] for name in comparison.names
    }
    measured = [name for name, column in cells.items() if any(column)]
    for name in measured:
        table.add_column(TITLES.get(name, name.replace("_", " ")), justify="right")
    for place, checkpoint in enumerate(comparison.checkpoints):
        table.add_row(checkpoint.name, *(cells[name][place] for name in measured))
    if (majority := comparison.majority) is not None:
        table.add_row("the majority", *(_of_majority(name, majority.value) for name in measured))
    console.print(table)
    for line in [*pair_sentences(verdicts, same_loss), f"report: {report}"]:
        console.print(line, markup=False, soft_wrap=True)


def comparison_as_json(
    comparison: Comparison, verdicts: Sequence[PairVerdict], notes: Sequence[str], report: Path
) -> str:
    """One JSON object: records, verdicts with their intervals, and descriptions of the checkpoints."""
    content = {
        "records": [asdict(record) for record in comparison.records],
        "verdicts": [_verdict_as_json(verdict) for verdict in verdicts],
        "models": [_checkpoint_as_json(checkpoint) for checkpoint in comparison.checkpoints],
        "notes": list(notes),
        "report": str(report),
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False)


def _cell(comparison: Comparison, checkpoint: Checkpoint, name: str) -> str:
    if name in ACCURACIES:
        accuracy = comparison.estimate(checkpoint, name)
        return "" if accuracy is None else as_text(accuracy.value, accuracy.standard_error)
    found = comparison.measurement(checkpoint, name)
    if found is None:
        return ""
    return as_text(found.records[0].value, found.records[0].standard_error)


def _of_majority(name: str, accuracy: float) -> str:
    return f"{accuracy:.4g}" if name in ACCURACIES else ""


def _verdict_as_json(verdict: PairVerdict) -> dict[str, Any]:
    known = asdict(verdict)
    for end in ("low", "high"):
        if math.isnan(known[end]):  # of a question not asked, or that nothing bounds
            known[end] = None
    return known


def _checkpoint_as_json(checkpoint: Checkpoint) -> dict[str, Any]:
    known = asdict(checkpoint)
    del known["shapes"]
    return known
