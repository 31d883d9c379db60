"""The output of `isoloss flatness`: a table for people, or JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rich.table import Table
from torch import nn

from isoloss.command_line.terminal import in_lines, table_console
from isoloss.corpora.token_sentences import Corpus
from isoloss.measurements.fixed_sentences import Reading, SampledBatches
from isoloss.measurements.measured_models import MeasuredModels
from isoloss.measurements.quantity import row_title, warnings_of
from isoloss.models.tokenizer import lost_capitals
from isoloss.results.estimate import CONFIDENCE, Estimate
from isoloss.results.record import Record

if TYPE_CHECKING:
    from isoloss.measurements.verdicts import PairVerdict


@dataclass(frozen=True)
class Shown:
    """What was measured, for which models, on what, and what is concluded of several."""

    measured: list[MeasuredModels]
    models: Mapping[str, nn.Module]
    batches: SampledBatches
    verdicts: "list[PairVerdict]"
    conclusions: list[str]


def print_json(shown: Shown) -> None:
    """One JSON object on stdout: the records and what they describe."""
    longest = max((each.reading for each in shown.measured), key=lambda reading: reading.tokens)
    content = {
        "records": [asdict(record) for each in shown.measured for record in each.records],
        "estimand": shown.batches.prediction.estimand,
        "stopped": {each.quantity: each.stopped for each in shown.measured},
        "ways": {each.quantity: each.ways for each in shown.measured if each.ways},
        "apart": {each.quantity: each.apart for each in shown.measured if each.apart},
        "models": [
            {
                "model": name,
                "class": type(model).__name__,
                "frozen": [
                    each for each, parameter in model.named_parameters() if not parameter.requires_grad
                ],
            }
            for name, model in shown.models.items()
        ],
        "verdicts": [verdict.as_json for verdict in shown.verdicts],
        "conclusions": shown.conclusions,
        "lines_cut": sorted(longest.cut),
        "lines_too_short": sorted(longest.short),
        "tokens": longest.tokens,
        "tokens_unknown": longest.unknown,
    }
    print(json.dumps(content, ensure_ascii=False, allow_nan=False))


def print_flatness(shown: Shown) -> None:
    """A table per quantity on stdout, and below it what was measured and why it stopped."""
    console = table_console()
    for each in shown.measured:
        console.print(_table(each, list(shown.models)))
        for line in _notes(each, shown):
            print(in_lines(line))
    for line in shown.conclusions:
        print(in_lines(line))


def sentences_below(shown: Shown) -> list[str]:
    """Each quantity's notes below the tables, without repetitions."""
    notes = [line for each in shown.measured for line in _notes(each, shown)]
    return list(dict.fromkeys(notes))


def _table(measured: MeasuredModels, models: list[str]) -> Table:
    wholes = [record for record in measured.records if "group" not in record.settings]
    parts = [record for record in measured.records if "group" in record.settings]
    in_one = len({record.unit for record in wholes}) == 1
    table = Table(title=measured.quantity + (f" in {wholes[0].unit}" if in_one else ""))
    table.add_column("part of the model")
    for name in models:
        table.add_column(name, justify="right", overflow="fold")
    for group in dict.fromkeys(str(record.settings["group"]) for record in parts):
        alike = [record for record in parts if record.settings["group"] == group]
        table.add_row(group, *_cells(alike, models))
    table.add_section()
    for title in dict.fromkeys(map(row_title, wholes)):
        alike = [record for record in wholes if row_title(record) == title]
        unit = "" if in_one else f" ({alike[0].unit})"
        table.add_row(title + unit, *_cells(alike, models), style="bold" if alike[0] is wholes[0] else None)
    return table


def _cells(records: list[Record], models: list[str]) -> list[str]:
    by_model = {r.checkpoint: str(r) for r in records}
    return [by_model.get(name, "") for name in models]


def _notes(measured: MeasuredModels, shown: Shown) -> list[str]:
    whole = measured.records[0]
    sentences = int(whole.settings.get("sentences") or whole.n)
    units = measured.error_over or ("" if sentences == whole.n else "groups of sentences")
    over = f"{whole.n:,} {units}" if units else "sentences"
    values = next(iter(measured.measurements.values())).values
    is_mean = not units and whole.quantity in values
    notes = [
        f"stopped after {sentences:,} sentences: {measured.stopped}",
        f"each number is {'' if is_mean else 'of the loss, '}a {shown.batches.prediction.estimand}, ± its "
        f"standard error over {over}",
    ]
    precision = whole.settings.get("dtype", "float32")
    if precision not in ("float32", "float64"):
        notes.append(f"measured in {precision}; its sums over products are in float32")
    if measured.ways:
        ways = ", ".join(f"{way} {count}" for way, count in measured.ways.items())
        notes.append(f"tensors, by how they were measured: {ways}")
    for name, model in shown.models.items():
        notes += about_frozen(name, model)
    for name, way in measured.apart.items():
        notes.append(f"{name}: its scores change with padding, so it was given {way}")
    notes += warnings_of(measured.records)
    notes += [
        note
        for each in measured.records
        if each.quantity == "hessian_trace" and (note := _undetermined_sign(each))
    ]
    return [*notes, *_about_the_text(measured.reading, shown.batches.corpus)]


def about_frozen(name: str, model: nn.Module) -> list[str]:
    """How many of its tensors are not measured; nothing if all are."""
    frozen = sum(not parameter.requires_grad for parameter in model.parameters())
    are = "tensor is" if frozen == 1 else "tensors are"
    return [f"{name}: {frozen} {are} frozen and left out"] if frozen else []


def _undetermined_sign(record: Record) -> str:
    """That the interval contains zero, and how many sentences would tell; empty if it does not."""
    from isoloss.measurements.verdicts import about, judged
    from isoloss.results.verdict import Verdict, below

    found = Estimate(record.value, record.standard_error or 0.0, record.n)
    verdict, needed = judged(found, found.interval(CONFIDENCE), below(0.0), CONFIDENCE)
    if verdict != Verdict.INCONCLUSIVE:
        return ""
    sentences = int(record.settings.get("sentences") or record.n) * needed / record.n
    return (
        f"warning: the sign of {record.quantity} of {record.checkpoint} is undetermined; {about(sentences)} "
        "sentences would settle it, if the true value is the one found"
    )


def _about_the_text(reading: Reading, corpus: Corpus) -> list[str]:
    """How much of it says nothing about the model: what the reading notes, and lost capitals."""
    tokenizer = getattr(corpus, "tokenizer", None)
    lost = None if tokenizer is None else lost_capitals(tokenizer)
    return reading.notes if lost is None else [*reading.notes, f"warning: {lost}"]
