"""One run of Figure 1: pre-train, then measure every checkpoint once."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import polars as pl
from torch import nn

from isoloss.errors import IsolossError
from isoloss.experiments.figure_1 import FigureRun, run_operations
from isoloss.experiments.measured_on import MeasuredOn, load
from isoloss.experiments.runner import Job
from isoloss.languages.language import Language
from isoloss.measurements.exact_loss import exact_loss
from isoloss.measurements.flatness import flatness
from isoloss.measurements.flatness_records import flatness_records
from isoloss.measurements.linear_probe import linear_probe
from isoloss.measurements.record import Record, Setting
from isoloss.measurements.records_file import append_records, read_records
from isoloss.measurements.sentence_features import sentence_features
from isoloss.models.loading import load_masked_language_model
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.checkpoint import checkpoint_folders, read_checkpoint
from isoloss.pretraining.loop import pretrain
from isoloss.pretraining.run_folder import only_process_in
from isoloss.progress import Progress

RECORDS_FILE = "records.jsonl"
LAST_QUANTITY = "linear_probe_deviation_over_seeds"
"""The last of a checkpoint's records to be written: where it stands, so do the others."""

TRAINING_SHARE = 0.8
"""About how much of a run's time its pre-training takes; only the progress bar depends on it."""


def run_folder(output: Path, run: FigureRun) -> Path:
    """Where a run lives: named for its whole specification, so that figures share what is equal."""
    return output / "runs" / run.specification.digest[:16]


def jobs(
    runs: Sequence[FigureRun], language: Language, measured_on: Path, output: Path, device: str
) -> list[Job]:
    """A resumable job for every run."""
    work = {run: partial(carry_out, run, language, measured_on, output, device) for run in runs}
    return [Job(run.name, work[run], cost=run_operations(run, language)) for run in runs]


def carry_out(
    run: FigureRun, language: Language, measured_on: Path, output: Path, device: str, progress: Progress
) -> tuple[str, ...]:
    """Pre-train and measure one run; what is there already is not computed again.

    Returns a sentence for each damaged checkpoint, which is passed over.
    """
    folder = run_folder(output, run)

    def while_training(task: str, completed: float, total: float, message: str = "") -> None:
        progress(task, TRAINING_SHARE * completed, total, message)

    report = pretrain(run.specification, language, folder, device=device, progress=while_training)
    with only_process_in(folder):
        damaged = _measure_missing(run, folder, load(measured_on), device, progress)
    progress("done", 1.0, 1.0)
    return (*report.damaged, *damaged)


def _measure_missing(
    run: FigureRun, folder: Path, on: MeasuredOn, device: str, progress: Progress
) -> list[str]:
    """Measure the checkpoints that have no records yet; a sentence for each that is damaged."""
    damaged = []
    measured = _measured(folder, on.digest)
    missing = [path for path in checkpoint_folders(folder) if int(path.name) not in measured]
    for done, path in enumerate(missing):
        share = TRAINING_SHARE + (1 - TRAINING_SHARE) * done / len(missing)
        progress("measuring", share, 1.0, f"step {int(path.name):,}")
        try:
            checkpoint = read_checkpoint(path)
        except IsolossError as error:
            damaged.append(str(error))
            continue
        settings: dict[str, Setting] = {
            "run": run.name,
            "width": run.width,
            "step": checkpoint.step,
            "measured_on": on.digest,
        }
        model = load_masked_language_model(checkpoint.folder).to(device)
        append_records(folder / RECORDS_FILE, measure(model, on, checkpoint.digest[:16], run.seed, settings))
    return damaged


def measure(
    model: nn.Module, on: MeasuredOn, checkpoint: str, seed: int, settings: dict[str, Setting]
) -> list[Record]:
    """Exact loss, trace, and probe accuracy of one model, as records."""
    objective = MaskedObjective()
    settings = {**settings, "pretraining_seed": seed}
    loss = exact_loss(model, objective, on.evaluation)
    trace = flatness(model, objective, on.flatness)
    train, test = on.splits.train, on.splits.test
    accuracy = linear_probe(
        sentence_features(model, train.sentences),
        train.labels,
        sentence_features(model, test.sentences),
        test.labels,
        on.classes,
        on.probe,
    )
    return [
        *loss.records(checkpoint, settings),
        *flatness_records(trace, on.flatness.seed, checkpoint, settings),
        *accuracy.records(checkpoint, {**settings, "task": on.task}),
    ]


def checkpoint_table(
    runs: Sequence[FigureRun], output: Path, measured_on: str, saturated_from: int
) -> pl.DataFrame:
    """A row a measured checkpoint of `runs`, in their order and then by step; the figure's numbers.

    `kl_error`, `loss_error`, `accuracy_error` and `trace_error` are standard errors over sentences,
    `accuracy_deviation` is the standard deviation over the probe's seeds, `loss_deviation` that over 5
    disjoint subsets.
    """
    rows = []
    for run in runs:
        by_step = _measured(run_folder(output, run), measured_on)
        rows += [_row(run, step, by_step[step], step >= saturated_from) for step in sorted(by_step)]
    return pl.DataFrame(rows)


def _row(run: FigureRun, step: int, records: dict[str, Record], saturated: bool) -> dict[str, object]:
    kl, loss = records["masked_kl_sentence_averaged"], records["masked_loss_sentence_averaged"]
    accuracy, trace = records["linear_probe_accuracy"], records["fisher_trace"]
    return {
        "run": run.name,
        "width": run.width,
        "seed": run.seed,
        "step": step,
        "saturated": saturated,
        "loss": loss.value,
        "loss_error": loss.standard_error,
        "loss_deviation": records["masked_loss_subset_deviation"].value,
        "kl": kl.value,
        "kl_error": kl.standard_error,
        "accuracy": accuracy.value,
        "accuracy_error": accuracy.standard_error,
        "accuracy_deviation": records["linear_probe_deviation_over_seeds"].value,
        "trace": trace.value,
        "trace_error": trace.standard_error,
        "loss_sentences": loss.n,
        "trace_sentences": trace.n,
        "probe_test_sentences": accuracy.n,
        "parameters": trace.settings["parameters"],
        "checkpoint": loss.checkpoint,
    }


def _measured(folder: Path, measured_on: str) -> dict[int, dict[str, Record]]:
    """The records of every completely measured checkpoint, by step and quantity, without the groups."""
    by_step: dict[int, dict[str, Record]] = {}
    for record in read_records(folder / RECORDS_FILE):
        if record.settings.get("measured_on") == measured_on and "group" not in record.settings:
            by_step.setdefault(int(record.settings["step"] or 0), {})[record.quantity] = record
    return {step: records for step, records in by_step.items() if LAST_QUANTITY in records}
