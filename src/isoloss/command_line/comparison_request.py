"""`isoloss compare-checkpoints`: checks what was asked for, measures what is missing, writes the report."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Literal

import torch

from isoloss.command_line.comparison_plan import PlanSettings, Sources, planned_stages, read_sources
from isoloss.command_line.comparison_summary import comparison_as_json, print_comparison
from isoloss.command_line.output_file import refuse_unwritable
from isoloss.command_line.progress_display import progress_display
from isoloss.command_line.seed import usable_seed
from isoloss.curvature.stopping import Stopping
from isoloss.errors import BadInput
from isoloss.measurements.checkpoint_comparison import Comparison, Measured, Stage, carry_out
from isoloss.measurements.checkpoint_verdicts import verdicts
from isoloss.measurements.compared_checkpoints import (
    Checkpoint,
    Models,
    read_checkpoints,
    refuse_named_twice,
)
from isoloss.measurements.kept_measurements import KeptMeasurements
from isoloss.measurements.records_file import write_records
from isoloss.models.any_language_model import Prediction
from isoloss.pretraining.loop import usable_device
from isoloss.pretraining.run_folder import only_process_in
from isoloss.report.comparison_page import Told, comparison_page
from isoloss.report.page import write_lone_page

RELATIVE_ERROR = 0.02
LOSS_SENTENCES = 10_000
"""Losses of sentences have a deviation of about a nat: ten thousand give a mean to about 0.01 nats, and
differences between models, which share what is hard about a sentence, much more closely."""


@dataclass(frozen=True)
class ComparisonRequest:
    """The options of `isoloss compare-checkpoints`; see its help."""

    models: tuple[str, ...]
    text: Path | None = None
    dataset: str | None = None
    task: Path | None = None
    task_test: Path | None = None
    task_columns: tuple[str, ...] = ()
    task_examples: int | None = None
    task_length: int = 128
    fine_tune: bool = False
    same_loss: float = 0.01
    relative_error: float | None = None
    sentences: int | None = None
    seconds: float | None = None
    mask_rate: float = 0.15
    objective: Prediction | None = None
    seed: int = 0
    device: str = "cpu"
    dtype: Literal["float64", "float32", "bfloat16"] = "float32"
    output: Path = Path("comparison.html")
    json: bool = False

    @property
    def loss_stopping(self) -> Stopping:
        """When a model's loss is known well enough."""
        return Stopping(None, self.sentences or LOSS_SENTENCES, self.seconds)

    @property
    def trace_stopping(self) -> Stopping:
        """When a model's trace is: at a relative error of 2 % where nothing is said."""
        free = self.relative_error is None and self.sentences is None and self.seconds is None
        return Stopping(RELATIVE_ERROR if free else self.relative_error, self.sentences, self.seconds)

    @property
    def plan_settings(self) -> PlanSettings:
        """How everything is measured."""
        stopping = (self.loss_stopping, self.trace_stopping)
        return PlanSettings(self.seed, self.mask_rate, *stopping, self.task_length, self.fine_tune)

    @property
    def given(self) -> dict[str, str]:
        """The options that are not as they are by default, as one would write them."""
        found = {}
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if value != field.default and field.name != "json":
                said = [] if value is True else value if isinstance(value, tuple) else [value]
                found["--" + field.name.replace("_", "-")] = shlex.join(map(str, said))
        return found

    @property
    def command(self) -> str:
        """The command that asks for the same."""
        options = [f"{name} {value}".strip() for name, value in self.given.items()]
        return " ".join(["isoloss compare-checkpoints", shlex.join(self.models), *options])


def measure_comparison(request: ComparisonRequest) -> int:
    """Carry out the request; 0 when everything was measured.

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
    kept = KeptMeasurements(request.output.with_suffix(".measured"))
    with only_process_in(kept.folder), progress_display() as progress:
        kept.forget_unfinished()
        checkpoints = read_checkpoints(request.models, models, sources.sample, progress)
        stages = planned_stages(request.plan_settings, checkpoints, sources, models)
        report = partial(_write, request, checkpoints, sources, stages)
        measured = carry_out(stages, models, kept, report, progress)
    comparison = Comparison(checkpoints, measured, sources.task)
    found = verdicts(comparison, request.same_loss)
    if request.json:
        print(comparison_as_json(comparison, found, sources.notes, request.output))
    else:
        print_comparison(comparison, found, request.same_loss, request.output)
    return 0


def _write(
    request: ComparisonRequest,
    checkpoints: tuple[Checkpoint, ...],
    sources: Sources,
    stages: Sequence[Stage],
    measured: Measured,
) -> None:
    """Write the report and the records of what has been measured so far."""
    comparison = Comparison(checkpoints, measured, sources.task)
    told = Told(
        settings=_settings(request, sources),
        notices=sources.notes,
        command=request.command,
        same_loss=request.same_loss,
        complete=len(measured) == sum(map(len, stages)),
    )
    page = comparison_page(comparison, verdicts(comparison, request.same_loss), told)
    write_lone_page(page, request.output)
    write_records(request.output.with_suffix(".jsonl"), comparison.records)


def _settings(request: ComparisonRequest, sources: Sources) -> tuple[tuple[str, str], ...]:
    rows = [("seed", str(request.seed)), ("precision", request.dtype), *sources.told]
    if sources.corpus is not None:
        rows.append(("loss", f"on {request.loss_stopping.sentences:,} sentences at most"))
    return tuple(rows)


def _check(request: ComparisonRequest) -> None:
    """Refuse what needs no model to be refused."""
    if len(request.models) < 2:
        raise BadInput("name two checkpoints or more, folders or names on a hub, to compare them")
    refuse_named_twice(request.models)
    if request.text is not None and request.dataset is not None:
        raise BadInput("give --text or --dataset for loss and flatness, not both")
    if request.text is None and request.dataset is None and request.task is None:
        raise BadInput("say what to compare on: --text FILE for loss and flatness, --task FILE for accuracy")
    if request.task is None and (request.task_test or request.task_columns or request.fine_tune):
        raise BadInput("there is no task: give --task FILE, or leave the options of a task out")
    usable_seed(request.seed)
    if not 0 < request.mask_rate <= 1:
        raise BadInput(f"the mask rate must be above 0 and at most 1, not {request.mask_rate}")
    if not 0 < request.same_loss < 1:
        raise BadInput(f"--same-loss is a share of the loss, such as 0.01, not {request.same_loss}")
    if request.task_length < 8:
        raise BadInput(f"--task-length must leave at least 8 tokens of an example, not {request.task_length}")
    if request.output.suffix != ".html":
        raise BadInput(f"--output names an HTML file, such as comparison.html, not {request.output}")
    _ = request.loss_stopping, request.trace_stopping, usable_device(request.device)
    refuse_unwritable(request.output)
