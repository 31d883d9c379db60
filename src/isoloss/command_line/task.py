"""`isoloss task`: a task on real text, fetched into the cache and described."""

import json
from collections import Counter
from typing import Any

from rich.table import Table

from isoloss.command_line.checked_options import refuse_below
from isoloss.command_line.options.corpus import TaskName, TaskOptions
from isoloss.command_line.terminal import progress_display, table_console
from isoloss.corpora.fetched_package import default_cache
from isoloss.corpora.glue import GlueTask
from isoloss.corpora.glue_forms import AnsweringSentences, MovieSnippets, VerifiedClaims
from isoloss.corpora.labelled_texts import LabelledTexts, TaskSource, TextTask


def task(options: TaskOptions) -> None:
    """Download a task on real text into the user's cache, once, and describe it."""
    refuse_below(0, options.examples, "--examples")
    source = _source(options.name)
    with progress_display() as progress:
        found = source.task(default_cache(), progress)
    told = _told(source, found)
    if options.json:
        print(json.dumps(told, indent=2, ensure_ascii=False))
        return
    table = Table(title=found.name, caption=source.description)
    for heading in ("part", "examples", *found.classes):
        table.add_column(heading, justify="left" if heading == "part" else "right")
    for part, counts in told["parts"].items():
        table.add_row(part, f"{sum(counts.values()):,}", *(f"{counts[own]:,}" for own in found.classes))
    table_console().print(table)
    for number, own in enumerate(found.classes):
        rows = [row for row, label in enumerate(found.train.labels) if label == number][: options.examples]
        for row in rows:
            second = "" if found.train.seconds is None else f" | {found.train.seconds[row]}"
            table_console().print(f"{own}: {found.train.texts[row]}{second}", markup=False)


def _source(name: TaskName) -> TaskSource:
    match name:
        case "sst2-form":
            return MovieSnippets()
        case "qnli-form":
            return AnsweringSentences()
        case "rte-form":
            return VerifiedClaims()
        case _:
            return GlueTask(name)


def _told(source: TaskSource, found: TextTask) -> dict[str, Any]:
    parts = {"train": found.train, "validation": found.validation, "test": found.test}
    return {
        "name": found.name,
        "description": source.description,
        "classes": list(found.classes),
        "parts": {name: _counts(part, found.classes) for name, part in parts.items()},
    }


def _counts(part: LabelledTexts, classes: tuple[str, ...]) -> dict[str, int]:
    counted = Counter(part.labels)
    return {own: counted[number] for number, own in enumerate(classes)}
