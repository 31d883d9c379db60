"""`isoloss compare`: loss, flatness and accuracy of several models, and what may be said of them."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from isoloss.command_line.options import (
    File,
    Name,
    Number,
    Objective,
    Quantities,
    Share,
    refuse_named_twice,
    refuse_no_file,
    refuse_no_page,
    repeated_command,
    trace_stopping,
    usable_seed,
)
from isoloss.command_line.terminal import broken, print_table, progress_display, starting
from isoloss.errors import BadInput, Damaged
from isoloss.measurements.on_sentences import quantity_named, refuse_unknown_quantities

if TYPE_CHECKING:
    from isoloss.measurements.checkpoint_comparison import Comparison, Measured
    from isoloss.measurements.compared_checkpoints import Stage
    from isoloss.measurements.comparison_plan import PlanSettings
    from isoloss.measurements.comparison_sources import Sources

LOSS_SENTENCES = 10_000
"""The loss of a sentence has a standard deviation of about 1 nat, so ten thousand give the mean to about 0.01
nats, and differences between models, which find the same sentences hard, far more precisely."""

TITLES = {
    "loss": "loss (nats)",
    "trace": "Fisher trace",
    "probe": "linear probe",
    "fine-tuning": "fine-tuned",
}
"""Of columns; others are called by their quantities' names."""


@dataclass(frozen=True)
class CompareOptions:
    """Compare Hugging Face language models: do they have the same loss, which is flatter, which is better?

    Example: isoloss compare step-1000 step-2000 --text held-out.txt --task reviews.jsonl

    On a text, it measures the pre-training loss and the trace of the Fisher information, with the same
    sentences and masks for every model. On a task (a file of labelled texts), it trains a linear probe and,
    with --fine-tune, fine-tunes each model, with 5 seeds each. Every number and every difference has its own
    error bar, and a verdict is given only if the whole confidence interval supports it. Measurements are
    cached beside the report, so the same command resumes after an interruption.
    """

    models: Annotated[
        tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="MODEL MODEL ...", help_behavior_hint="")
    ]
    """Two or more model folders, as written by save_pretrained, or names on a hub."""
    text: File = None
    """A held-out text in UTF-8 with one sentence or document per line, for loss and flatness.
    Of models with the head of a task, a table of texts and labels, as of isoloss flatness."""
    dataset: Name = None
    """A data set of the datasets package instead: a name or folder, then :CONFIGURATION if needed."""
    task: File = None
    """Labelled texts or pairs of texts: .jsonl, .csv, .tsv or .parquet.
    Split by a hash of the text into training, validation and test, unless --task-test gives the test set."""
    task_test: File = None
    """A file of test examples in the same format."""
    task_columns: Annotated[tuple[str, ...], tyro.conf.arg(metavar="COLUMN", help_behavior_hint="")] = ()
    """The columns of the text or of both texts, followed by the label's.
    By default, GLUE's names: text or sentence, sentence1 and sentence2, ...; label."""
    task_examples: Number = None
    """Train and test on at most N examples, chosen by hash; all by default."""
    task_length: Annotated[int | None, tyro.conf.arg(metavar="TOKENS", help_behavior_hint="")] = None
    """Truncate the task's examples to this many tokens; 128 by default."""
    quantity: Quantities = ("fisher_trace",)
    """What to measure on the text besides the loss; one or more."""
    fine_tune: bool = False
    """Also fine-tune each model on the task, once per seed; this is the slowest part."""
    same_loss: Annotated[float, tyro.conf.arg(metavar="SHARE")] = 0.01
    """Treat losses as the same if they are within this fraction of the first model's."""
    relative_error: Annotated[float | None, tyro.conf.arg(metavar="R", help_behavior_hint="")] = None
    """Stop a trace at this relative standard error; 0.02 if there is no other stopping criterion."""
    sentences: Number = None
    """Measure on at most N sentences; by default the loss is measured on ten thousand."""
    seconds: Annotated[float | None, tyro.conf.arg(metavar="S", help_behavior_hint="")] = None
    """Spend at most S seconds on each model's loss, and S on its trace."""
    mask_rate: Share = None
    """Share of a sentence's tokens that are masked at once, for masked models; 0.15 by default."""
    objective: Objective = None
    """What the models predict; read from their configurations when not given."""
    seed: int = 0
    """Seed of the sentence order, the masks and the trace's random signs."""
    device: str = "cpu"
    """Where the models are measured: cpu or cuda."""
    dtype: Literal["float64", "float32", "bfloat16"] = "float32"
    """The precision of loss, trace and probe; fine-tuning is in float32."""
    output: Path = Path("comparison.html")
    """The report, a single HTML file; a file of records (.jsonl) and the folder .measured go beside it."""
    json: bool = False
    """Print JSON: {"records": [...], "verdicts": [...], ...}."""


def compare(options: CompareOptions) -> int:
    """Carry out the request. Raises BadInput for what cannot be measured or compared."""
    _check_without_torch(options)
    with starting("compare"):
        import torch

        from isoloss.device import usable_device
        from isoloss.files import only_process_in, remove_unfinished
        from isoloss.measurements.checkpoint_comparison import Comparison, carry_out
        from isoloss.measurements.compared_checkpoints import Models, read_checkpoints
        from isoloss.measurements.comparison_plan import planned_stages, quantities_beside_loss
        from isoloss.measurements.comparison_sources import read_sources
        from isoloss.measurements.prediction import MaskedTokens
        from isoloss.models.model_files import quiet
        from isoloss.results.measurement_store import Measurements

    for name in options.quantity:
        quantity_named(name, LOSS_SENTENCES, options.seed)  # refuses a file that defines none
    MaskedTokens(options.mask_rate)  # refuses what is no share
    quantities = quantities_beside_loss(options.quantity)
    models = Models(usable_device(options.device), getattr(torch, options.dtype), options.objective)
    settings = _plan_settings(options, quantities)
    sources = read_sources(
        options.models,
        options.objective,
        options.text,
        options.dataset,
        options.task,
        options.task_test,
        options.task_columns,
        options.task_examples,
    )
    store = Measurements(options.output.with_suffix(".measured"))
    with only_process_in(store.folder), progress_display() as progress, quiet():
        remove_unfinished(store.folder)
        checkpoints = read_checkpoints(options.models, models, sources.texts, progress)
        stages = planned_stages(settings, checkpoints, sources, models)
        smaller_is = {each.name: each.smaller_is for stage in stages for _, each in stage}
        compared = partial(Comparison, checkpoints, task=sources.task, smaller_is=smaller_is)
        report = partial(_write, options, compared, sources, stages)
        damaged: list[str] = []
        measured = carry_out(stages, models, store, report, damaged.append, progress)
    for sentence in damaged:
        print(sentence, file=sys.stderr)
    _print(options, compared(measured), sources)
    return 0


def _check_without_torch(options: CompareOptions) -> None:
    """Refuse what can be refused before torch is imported, which takes seconds."""
    from isoloss.models.names import refuse_absent, refuse_absent_data_set

    if len(options.models) < 2:
        raise BadInput("name two checkpoints or more, folders or names on a hub, to compare them")
    refuse_named_twice(options.models)
    refuse_unknown_quantities(options.quantity)
    if options.text is not None and options.dataset is not None:
        raise BadInput("give --text or --dataset for loss and flatness, not both")
    if options.text is None and options.dataset is None and options.task is None:
        raise BadInput(
            "say what to compare on: --text FILE for loss and flatness, --task FILE for accuracy; "
            "two runs of a results folder are compared by `isoloss compare-runs`"
        )
    _refuse_options_of_nothing(options)
    refuse_no_file(options.text)
    refuse_no_file(options.task, options.task_test, holds="rows of a text and a label")
    usable_seed(options.seed)
    if not 0 < options.same_loss < 1:
        raise BadInput(f"--same-loss is a share of the loss, such as 0.01, not {options.same_loss}")
    if options.task_length is not None and options.task_length < 8:
        raise BadInput(f"--task-length must leave at least 8 tokens of an example, not {options.task_length}")
    refuse_no_page(options.output, "comparison.html")
    _refuse_other_records(options.output.with_suffix(".jsonl"))
    refuse_absent(*options.models)
    if options.dataset is not None:
        refuse_absent_data_set(options.dataset)


def _refuse_other_records(path: Path) -> None:
    """Raise BadInput where a page's records would replace another file, such as the text of that name."""
    if not path.exists():
        return
    from isoloss.results.record import read_records

    try:
        read_records(path, path.name)
    except (Damaged, OSError) as error:
        raise BadInput(
            f"{path} would be replaced by the page's records, and is no whole file of records; delete it, or "
            "name another page with --output"
        ) from error


def _refuse_options_of_nothing(options: CompareOptions) -> None:
    """Raise BadInput for options of a task without one, and for options of a text without one."""
    numbers = options.task_examples, options.task_length
    if options.task is None and (
        options.task_test or options.task_columns or options.fine_tune or numbers != (None, None)
    ):
        raise BadInput("there is no task: give --task FILE, or leave the options of a task out")
    limits = options.relative_error, options.sentences, options.seconds
    usual = options.quantity == CompareOptions.quantity and options.mask_rate is None
    if options.text is None and options.dataset is None and (limits != (None, None, None) or not usual):
        raise BadInput(
            "there is no text to measure on: give --text FILE, or leave out --quantity, --relative-error, "
            "--sentences, --seconds and --mask-rate"
        )


def _plan_settings(options: CompareOptions, quantities: tuple[str, ...]) -> "PlanSettings":
    from isoloss.curvature.stopping import Stopping
    from isoloss.measurements.comparison_plan import PlanSettings
    from isoloss.measurements.labelled_inputs import LONGEST

    return PlanSettings(
        options.seed,
        options.mask_rate,
        Stopping(None, options.sentences or LOSS_SENTENCES, options.seconds),
        trace_stopping(options.relative_error, options.sentences, options.seconds),
        quantities,
        LONGEST if options.task_length is None else options.task_length,
        options.fine_tune,
    )


def _write(
    options: CompareOptions,
    compared: "Callable[[Measured], Comparison]",
    sources: "Sources",
    stages: "Sequence[Stage]",
    measured: "Measured",
) -> None:
    """Write the report and the records of what has been measured so far."""
    from isoloss.report.comparison_page import comparison_page
    from isoloss.report.page import write_lone_page
    from isoloss.results.record import write_records

    comparison = compared(measured)
    settings = [("seed", str(options.seed)), ("precision", options.dtype), *sources.settings]
    if sources.corpus is not None:
        settings.append(("loss", f"on {options.sentences or LOSS_SENTENCES:,} sentences at most"))
    notices = [*sources.notes, *comparison.notes]
    if len(measured) < sum(map(len, stages)):
        notices.insert(0, "Not everything has been measured yet: the same command goes on from here.")
    verdicts, command = comparison.verdicts(options.same_loss), repeated_command("compare", options)
    page = comparison_page(comparison, verdicts, notices, settings, command)
    write_lone_page(page, options.output)
    records = options.output.with_suffix(".jsonl")
    write_records(records, comparison.records, records.name)


def _print(options: CompareOptions, comparison: "Comparison", sources: "Sources") -> None:
    """Records, verdicts with their intervals, and checkpoints as JSON; or a table, conclusions and notes."""
    from isoloss.measurements.verdicts import conclusions

    verdicts = comparison.verdicts(options.same_loss)
    concluded, notes = conclusions(verdicts), [*sources.notes, *comparison.notes]
    if not options.json:
        _print_table(comparison)
        print("\n".join([*map(broken, [*concluded, *notes]), f"page: {options.output}"]))
        return
    models = []
    for each in comparison.checkpoints:
        known = asdict(each) | {"prediction": each.prediction.name}
        del known["shapes"], known["tokens"]
        models.append(known | {"padding": each.tokens.pad, "decoder_start": each.tokens.start})
    content = {
        "records": [asdict(record) for record in comparison.records],
        "verdicts": [verdict.as_json for verdict in verdicts],
        "conclusions": concluded,
        "models": models,
        "notes": notes,
        "report": str(options.output),
    }
    print(json.dumps(content, ensure_ascii=False, allow_nan=False))


def _print_table(comparison: "Comparison") -> None:
    """A row per checkpoint, and the majority's; a column for what has been measured of any."""
    from isoloss.measurements.verdicts import ACCURACIES, MAJORITY

    every = comparison.checkpoints
    measured = [name for name in comparison.names if any(comparison.number(each, name) for each in every)]
    titles = ("checkpoint", *(TITLES.get(name, name.replace("_", " ")) for name in measured))
    rows = [[each.name, *(comparison.number(each, name) or "" for name in measured)] for each in every]
    if (majority := comparison.majority) is not None:
        rows.append([MAJORITY, *(f"{majority.value:.4g}" if name in ACCURACIES else "" for name in measured)])
    print_table(titles, rows, left=("checkpoint",))
