"""The report comparing checkpoints: conclusions for each pair, the numbers, and how they were measured."""

import math
from collections.abc import Sequence

import polars as pl
from markupsafe import Markup

from isoloss.measurements.checkpoint_comparison import Comparison
from isoloss.measurements.compared_checkpoints import Checkpoint, not_comparable
from isoloss.measurements.task_texts import DESCRIPTION
from isoloss.measurements.verdicts import (
    ACCURACIES,
    FINE_TUNING,
    LOSS,
    MAJORITY,
    PROBE,
    TRACE,
    PairVerdict,
    conclusions,
)
from isoloss.panels import Axis, Categories, Chart, Colour, Dots, Panel
from isoloss.report.page import Page, Section, drawn
from isoloss.report.table import html_table
from isoloss.results.estimate import CONFIDENCE
from isoloss.results.record import Record, as_text

CHECKPOINT = Colour("checkpoint", "checkpoint")
LOSS_AXIS = Axis("loss", "pre-training loss (nats)", "loss_error")
TRACE_AXIS = Axis("trace", "trace of the Fisher information", "trace_error", logarithmic=True)
ACCURACY_AXIS = Axis("accuracy", "accuracy on the task", "accuracy_error")

HEADS = {PROBE: "linear probe", FINE_TUNING: "fine-tuned"}


def comparison_page(
    comparison: Comparison,
    verdicts: Sequence[PairVerdict],
    notices: Sequence[str],
    settings: Sequence[tuple[str, str]],
    command: str,
) -> Page:
    """The page of everything measured so far, with sentences to note, and how it was measured."""
    sections = [
        differences(verdicts),
        Section("Checkpoints", markup=_checkpoints(comparison)),
        Section("Parts of the trace", markup=_groups(comparison)),
        Section("How it was measured", _HOW_MEASURED, rows=tuple(settings), code=command),
    ]
    return Page(
        name="comparison",
        title=" · ".join(checkpoint.name for checkpoint in comparison.checkpoints),
        text=tuple(conclusions(verdicts)) or ("Nothing can be compared yet.",),
        panels=tuple(drawn(panel) for panel in comparison_panels(comparison)),
        sections=tuple(section for section in sections if section.markup or section.rows),
        notices=tuple(notices),
    )


def comparison_panels(comparison: Comparison) -> list[Panel]:
    """Loss, trace and accuracy of every checkpoint, and against one another, as far as measured."""
    data, accuracies = _numbers(comparison), _accuracies(comparison)
    captions = {
        "loss": (
            "Pre-training loss",
            "± its standard error over sentences; every sentence counts alike.",
            LOSS_AXIS,
        ),
        "trace": ("Flatness", "± its standard error over sentences; smaller is flatter.", TRACE_AXIS),
    }
    for name in _others(comparison):
        words = name.replace("_", " ")
        axis = Axis(name, words, f"{name}_error")
        captions[name] = (words.capitalize(), "± its standard error.", axis)
    panels = [
        Panel(name, title, caption, (Categories("checkpoint", axis, CHECKPOINT),), data)
        for name, (title, caption, axis) in captions.items()
        if name in data.columns
    ]
    if not accuracies.is_empty():
        caption = (
            "Fraction of correct answers on the test, ± the standard error over test examples and seeds. The "
            "majority always answers with the most common class of the training examples."
        )
        chart: Chart = Categories("checkpoint", ACCURACY_AXIS, Colour("by", "by"))
        panels.append(Panel("accuracy", "The task", caption, (chart,), accuracies))
    first = comparison.checkpoints[0]
    alike = [each.name for each in comparison.checkpoints if not not_comparable(TRACE, each, first)]
    if {"trace", "accuracy"} <= set(data.columns) and len(alike) > 1:
        caption = (
            "Accuracy of the linear probe against the trace, for checkpoints with the same parameters as "
            f"{first.name}. At the same loss, the paper expects flatter ones to be better."
        )
        against, shared = (Dots(TRACE_AXIS, ACCURACY_AXIS, CHECKPOINT),), pl.col("checkpoint").is_in(alike)
        panels.append(
            Panel(
                "trace-and-accuracy", "Are flatter checkpoints better?", caption, against, data.filter(shared)
            )
        )
    return panels


_HOW_MEASURED = f"What the probe reads: the {DESCRIPTION}."


def _others(comparison: Comparison) -> list[str]:
    """Quantities of the text besides the loss and the trace."""
    return [name for name in comparison.names if name not in (LOSS, TRACE, *ACCURACIES)]


def _numbers(comparison: Comparison) -> pl.DataFrame:
    """A row per checkpoint; columns without any measurement are omitted."""
    rows = []
    for checkpoint in comparison.checkpoints:
        row: dict[str, object] = {"checkpoint": checkpoint.name}
        for name in (LOSS, TRACE, *_others(comparison), PROBE):
            if (found := comparison.number(checkpoint, name)) is not None:
                column = "accuracy" if name == PROBE else name
                row |= {column: found.value, f"{column}_error": found.standard_error}
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def _accuracies(comparison: Comparison) -> pl.DataFrame:
    rows = [
        {
            "checkpoint": checkpoint.name,
            "by": HEADS[name],
            "accuracy": found.value,
            "accuracy_error": found.standard_error,
        }
        for checkpoint in comparison.checkpoints
        for name in HEADS
        if (found := comparison.number(checkpoint, name)) is not None
    ]
    if rows and (majority := comparison.majority) is not None:
        numbers = {"accuracy": majority.value, "accuracy_error": majority.standard_error}
        rows.append({"checkpoint": MAJORITY, "by": "no model", **numbers})
    return pl.DataFrame(rows)


_HOW_DECIDED = (
    "One model’s number minus another’s, on the same sentences, masks and signs, or on the same test "
    "examples and seeds. A verdict is given where the whole interval agrees with it, and is left open "
    f"otherwise; all intervals of the table hold jointly with {100 * CONFIDENCE:g} % confidence."
)


def differences(verdicts: Sequence[PairVerdict]) -> Section:
    """A row per verdict, on this page and on that of `isoloss flatness`."""
    rows = [
        (
            f"{each.second} less {each.first}",
            each.measured,
            each.difference,
            "" if math.isnan(each.low) else f"{as_text(each.low)} to {as_text(each.high)}",
            None if each.difference is None else each.difference.n,
            f"{each.question}: {each.answer}",
        )
        for each in verdicts
    ]
    titles = ("pair", "measured", "difference", "interval", "n", "verdict")
    return Section("Differences", _HOW_DECIDED, markup=html_table(titles, rows) if rows else Markup())


def _checkpoints(comparison: Comparison) -> Markup:
    titles = ("checkpoint", "architecture", "predicts", "parameters", "longest text", "weights", "tokenizer")
    rows = (
        (c.name, c.kind, c.prediction.name, c.parameters, c.longest, c.weights[:12], c.tokenizer[:12])
        for c in comparison.checkpoints
    )
    return html_table(titles, rows)


def _groups(comparison: Comparison) -> Markup:
    """The trace by part of the model, one column per checkpoint."""
    found = {each.name: _parts(comparison, each) for each in comparison.checkpoints}
    groups = list(dict.fromkeys(group for parts in found.values() for group in parts))
    rows = [(group, *(parts.get(group) for parts in found.values())) for group in groups]
    return html_table(("part of the model", *found), rows) if rows else Markup()


def _parts(comparison: Comparison, checkpoint: Checkpoint) -> dict[str, Record]:
    found = comparison.measurement(checkpoint, TRACE)
    records = () if found is None else found.records
    return {str(record.settings["group"]): record for record in records if "group" in record.settings}
