"""The reports of `isoloss flatness` and `isoloss sensitivity`: parts of the network, and their course."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

import polars as pl
from markupsafe import Markup

from isoloss.curvature.weight_changes import Rounding
from isoloss.measurements.measured_models import MeasuredModels
from isoloss.measurements.quantity import row_title
from isoloss.measurements.sensitivity import UNIT, WHOLE, PartUnderChange
from isoloss.measurements.verdicts import PairVerdict, conclusions
from isoloss.panels import Axis, Bars, Chart, Colour, Lines, Panel
from isoloss.report.comparison_page import differences
from isoloss.report.page import Page, Section, drawn
from isoloss.report.table import html_table
from isoloss.results.estimate import CONFIDENCE, Estimate
from isoloss.results.record import Record

INTERVALS = f"Lines, and what follows ±, are {100 * CONFIDENCE:g} % intervals."
_STEP = re.compile(r"((?:.*/)?(?:checkpoint|ckpt|(?:global_)?step|epoch|iter)?[-_]?)(\d+)/?", re.DOTALL)
_LAYER = re.compile(r"((?:decoder )?layer \d+) (.+)")


def flatness_page(
    measured: Sequence[MeasuredModels],
    verdicts: Sequence[PairVerdict],
    sentences: Sequence[str],
    command: str,
) -> Page:
    """A page of all quantities of all models; `sentences` are those below the tables, a paragraph each."""
    names = without_shared_folders(
        list(dict.fromkeys(record.checkpoint for each in measured for record in each.records))
    )
    models = list(names.values())
    quantities = ", ".join(each.quantity.replace("_", " ") for each in measured)
    panels = [
        replace(panel, title=f"{each.quantity}: {panel.title}") if len(measured) > 1 else panel
        for each in (_renamed(each, names) for each in measured)
        for panel in (
            _side_by_side(each),
            _differences(each),
            _over_steps(each, models),
            *_parts(each, models),
        )
        if panel
    ]
    return Page(
        name="flatness",
        title=f"{quantities[:1].upper()}{quantities[1:]} of {' · '.join(models)}",
        text=(*conclusions(verdicts), *sentences),
        panels=tuple(map(drawn, panels)),
        sections=(
            *([differences(verdicts)] if verdicts else []),
            *(Section(each.quantity, markup=_table(each)) for each in measured),
            Section("How it was measured", code=command),
        ),
    )


def without_shared_folders(models: Sequence[str]) -> dict[str, str]:
    """Names for the charts: those of the models without the folders that all of them begin with.

    >>> without_shared_folders(["runs/lion/steps/100", "runs/adamw/steps/100/"])
    {'runs/lion/steps/100': 'lion/steps/100', 'runs/adamw/steps/100/': 'adamw/steps/100'}
    >>> without_shared_folders(["runs/lion"])
    {'runs/lion': 'runs/lion'}
    """
    parts = [model.rstrip("/").split("/") for model in models]
    shared = len(list(takewhile(lambda level: len(set(level)) == 1, zip(*parts, strict=False))))
    kept = 0 if len(models) < 2 else min(shared, *(len(each) - 1 for each in parts))
    return {model: "/".join(each[kept:]) for model, each in zip(models, parts, strict=True)}


def _renamed(measured: MeasuredModels, names: Mapping[str, str]) -> MeasuredModels:
    def renamed(record: Record) -> Record:
        reference = record.settings.get("reference")
        settings = (
            record.settings if reference is None else {**record.settings, "reference": names[str(reference)]}
        )
        return replace(record, checkpoint=names[record.checkpoint], settings=settings)

    measurements = {
        names[name]: replace(each, records=[renamed(record) for record in each.records])
        for name, each in measured.measurements.items()
    }
    differences = [renamed(record) for record in measured.differences]
    return replace(measured, measurements=measurements, differences=differences)


def run_and_step(model: str) -> tuple[str, int] | None:
    """A checkpoint's name before its step, and the step; None if the name is not that of a step of a run.

    >>> run_and_step("run/checkpoint-1500/"), run_and_step("run/steps/000100"), run_and_step("bert2")
    (('run/checkpoint-', 1500), ('run/steps/', 100), None)
    """
    found = _STEP.fullmatch(model)
    return (found[1], int(found[2])) if found else None


def _side_by_side(measured: MeasuredModels) -> Panel | None:
    """The first record of every model on one axis; None for a single model."""
    rows = [
        {"model": record.checkpoint, "run": "all of the model", **_value(record)}
        for record in _first_of_each(measured)
    ]
    if len(rows) < 2:
        return None
    chart = Bars("model", _axis(measured), Colour("run", ""))
    name = f"{_dashed(measured.quantity)}-of-models"
    caption = f"On the same sentences, masks and draws. {INTERVALS}"
    return Panel(name, "The models side by side", caption, (chart,), pl.DataFrame(rows))


def _differences(measured: MeasuredModels) -> Panel | None:
    """Each other model minus the first, with its interval; None if there are no differences."""
    rows = [
        {"model": record.checkpoint, "run": "difference", **_value(record)} for record in measured.differences
    ]
    if not rows:
        return None
    first = measured.differences[0].settings["reference"]
    axis = Axis("value", f"difference ({measured.records[0].unit})", "error")
    caption = f"Below zero, a model has less of it than {first}, on the same sentences. {INTERVALS}"
    name = f"{_dashed(measured.quantity)}-differences"
    chart = Bars("model", axis, Colour("run", ""))
    return Panel(name, "How they differ from the first", caption, (chart,), pl.DataFrame(rows))


def _parts(measured: MeasuredModels, models: Sequence[str]) -> list[Panel]:
    """The network's parts: the kinds within each layer, and what is outside layers; none if there are none.

    Embeddings may be a thousand times the layers, so that a common scale would not show both.
    """
    of_layers: list[dict[str, str | float]] = []
    outside: list[dict[str, str | float]] = []
    for record in measured.records:
        if "group" not in record.settings:
            continue
        part = str(record.settings["group"])
        row: dict[str, str | float] = {"part": part, "model": record.checkpoint, **_value(record)}
        if found := _LAYER.fullmatch(part):
            of_layers.append({**row, "layer": found[1], "kind": found[2]})
        else:
            outside.append(row)
    axis, by_model = _axis(measured), Colour("model", "model")
    in_layers = Bars("part", axis, by_model) if len(models) > 1 else Bars("layer", axis, Colour("kind", ""))
    caption = f"The parts in layers and outside of them add up to the whole of a model. {INTERVALS}"
    return [
        Panel(f"parts-of-{_dashed(measured.quantity)}-{place}", title, caption, (chart,), pl.DataFrame(rows))
        for place, title, chart, rows in (
            ("in-layers", "Where in the network: the layers", in_layers, of_layers),
            (
                "outside",
                "Where in the network: outside of the layers",
                Bars("part", axis, by_model),
                outside,
            ),
        )
        if rows
    ]


def _over_steps(measured: MeasuredModels, models: Sequence[str]) -> Panel | None:
    """The first record of every checkpoint over its step; None if they are not from one run."""
    found = {model: of for model in models if (of := run_and_step(model))}
    steps = {model: step for model, (_, step) in found.items()}
    one_run = len(found) == len(models) and len({run for run, _ in found.values()}) == 1
    if len(models) < 2 or not one_run or len(set(steps.values())) < len(models):
        return None
    rows = [
        {"step": steps[record.checkpoint], "run": "run", **_value(record)}
        for record in _first_of_each(measured)
    ]
    chart = Lines(Axis("step", "step"), _axis(measured), Colour("run", "run"), "run")
    name = f"{_dashed(measured.quantity)}-over-steps"
    caption = f"On the same sentences, masks and draws at every step. {INTERVALS}"
    return Panel(name, "Over the run", caption, (chart,), pl.DataFrame(rows).sort("step"))


def _first_of_each(measured: MeasuredModels) -> list[Record]:
    """Each model's first record, of those that are like the very first."""
    found: dict[str, Record] = {}
    for record in measured.records:
        if record.quantity == measured.records[0].quantity and "group" not in record.settings:
            found.setdefault(record.checkpoint, record)
    return list(found.values())


def _dashed(name: str) -> str:
    return re.sub("[^A-Za-z0-9]+", "-", name)


def _axis(measured: MeasuredModels) -> Axis:
    first = measured.records[0]
    return Axis("value", f"{row_title(first)} ({first.unit})", "error")


def _value(record: Record) -> dict[str, float]:
    """The number, and half the width of its interval."""
    error = record.standard_error or 0.0
    low, high = Estimate(record.value, error, record.n).interval(CONFIDENCE) if error else (0.0, 0.0)
    return {"value": record.value, "error": (high - low) / 2}


def _table(measured: MeasuredModels) -> Markup:
    rows = (
        (
            record.checkpoint,
            record.quantity if "reference" in record.settings else row_title(record),
            record,
            record.n,
            record.unit,
        )
        for record in measured.records
    )
    return html_table(("model", "of", "value", "n", "unit"), rows)


CAPTION = "KL(before || after) of changing one part alone, as predicted, ± the standard error over sentences"


def sensitivity_page(
    model: str,
    found: Sequence[PartUnderChange],
    roundings: Sequence[Rounding],
    sentences: Sequence[str],
    command: str,
) -> Page:
    """A picture of the roundings over their bits, one of every other change, and a table of all numbers.

    `sentences` are those below the tables, a paragraph each.
    """
    bits_of = {each.name: each.bits for each in roundings}
    rounded = [each for each in found if each.change in bits_of]
    others = [each for each in found if each.change not in bits_of]
    panels = []
    if rounded:
        value = Axis("value", f"KL ({UNIT})", "error", logarithmic=True)
        lines = Lines(Axis("bits", "bits"), value, Colour("part", ""), "part")
        panels.append(_panel("rounding", "Rounding to few bits", lines, rounded, bits_of))
    if others:
        bars = Bars("part", Axis("value", f"KL ({UNIT})", "error"), Colour("change", ""))
        panels.append(_panel("other-changes", "Other changes", bars, others, bits_of))
    columns: dict[str, list[object]] = {
        "part": [each.part for each in found],
        "change": [each.change for each in found],
        "numbers": [each.numbers for each in found],
        "from the trace": [each.from_trace for each in found],
        "½ δᵀFδ": [each.quadratic for each in found],
        "measured": [each.measured for each in found],
    }
    known = {title: cells for title, cells in columns.items() if any(cell is not None for cell in cells)}
    return Page(
        name="sensitivity",
        title=f"What changes of the weights cost {model}",
        text=(
            f"{CAPTION}, in {UNIT}; '{WHOLE}' is all parts at once.",
            *sentences,
        ),
        panels=tuple(map(drawn, panels)),
        sections=(
            Section("All numbers", markup=html_table(tuple(known), zip(*known.values(), strict=True))),
            Section("How it was predicted", code=command),
        ),
    )


def _panel(
    name: str, title: str, chart: Chart, found: Sequence[PartUnderChange], bits_of: dict[str, int]
) -> Panel:
    rows = [
        {
            "part": each.part,
            "change": each.change,
            "bits": bits_of.get(each.change),
            "value": each.best.value,
            "error": each.best.standard_error,
        }
        for each in found
    ]
    return Panel(f"sensitivity-{name}", title, f"{CAPTION}.", (chart,), pl.DataFrame(rows))
