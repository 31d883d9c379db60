"""A classification task from files of texts and labels."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from isoloss.corpora.labelled_texts import (
    LabelledTexts,
    Shares,
    TaskSizes,
    TextTask,
    distinct,
    linked_groups,
    sharing_no_text,
    split_by_hash,
)
from isoloss.corpora.tables import COLUMNS, LABEL, read_table
from isoloss.corpora.token_sentences import refuse_cells_of_no_text
from isoloss.errors import BadInput

WHOLE_NUMBER = re.compile(r"-?\d{1,18}")

KIND = "rows of a text and a label"

SHARES = Shares(validation=0.1, test=0.2)
"""The shares of examples that come without a split."""


@dataclass(frozen=True)
class ReadTask:
    """A task, and sentences on what was left out when reading it."""

    task: TextTask
    notes: tuple[str, ...]


def read_task(
    path: Path, test: Path | None = None, columns: Sequence[str] = (), examples: int | None = None
) -> ReadTask:
    r"""Read .jsonl, .csv, .tsv or .parquet: a text and a label per row, or two texts and a label.

    `columns` names the one or two texts and then the label, unless they are named as in `COLUMNS` and
    "label". Rows of a .tsv are unquoted, as GLUE's are. Examples that differ at most in white space and
    capitals count once, and not at all if their labels differ.

    A text's hash assigns it to training (70 %), validation (10 %) or test (20 %), so that no two parts share
    a text; examples that share one of two texts stay together. With a `test` file, the hash splits the
    others, and those that share a text with the test set are left out. `examples` keeps at most that many for
    each of training and test (half for validation), by the same hash.

    Raises BadInput, naming the file and the row, for a missing text or label, or a list in its place, for
    fewer than two classes, or one in the training examples, for labels that are nearly all different,
    for a class that occurs only in the `test` file, for one that shares a text with every example, and for a
    part that is too small.

    >>> import json, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "reviews.jsonl"
    >>> rows = [{"text": f"review {number}", "label": number % 2} for number in range(100)]
    >>> _ = path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    >>> task = read_task(path).task
    >>> task.classes, len(task.train) + len(task.validation) + len(task.test)
    (('0', '1'), 100)
    """
    if examples is not None and examples < 4:
        raise BadInput(f"{examples} examples are too few to learn from and be tested on; keep at least 4")
    rows = _read(path, columns)
    test_rows = None if test is None else _read(test, columns)
    if test is not None and test_rows is not None and len(test_rows[0]) != len(rows[0]):
        raise BadInput(f"{path} and {test} must both hold texts, or both pairs of texts")
    classes = _classes([row[-1] for row in (*rows, *(test_rows or ()))], path)
    every, notes = _distinct(_labelled(rows, classes), path)
    if test is None or test_rows is None:
        task = split_by_hash(path.stem, classes, every, SHARES, linked_groups(every))
    else:
        tested, more = _distinct(_labelled(test_rows, classes), test)
        kept = sharing_no_text(every, tested)
        if len(every) and not len(kept):
            raise BadInput(
                f"every example of {path} shares a text with {test}, so none is left to learn from; give a "
                "test of other texts, or leave --task-test out, and a fifth of them is kept for the test"
            )
        if out := len(every) - len(kept):
            more += (f"{path.name}: {out:,} examples share a text with the test and are left out",)
        notes += more
        divided = split_by_hash(path.stem, classes, kept, replace(SHARES, test=0), linked_groups(kept))
        task = replace(divided, test=tested)
    _check(task, path, test)
    kept_of_each = TaskSizes(examples, examples and examples // 2, examples).of(task)
    if len(learnt := set(kept_of_each.train.labels)) < 2:
        raise BadInput(
            f"all {len(kept_of_each.train)} examples of {path} that are kept to learn from have the label "
            f"'{classes[min(learnt)]}'; keep more than {examples}"
        )
    return ReadTask(kept_of_each, notes)


def _read(path: Path, columns: Sequence[str]) -> list[tuple[str, ...]]:
    """The text or texts of each row, and its label."""
    table = read_table(path, KIND)
    *texts, label = _columns(table, columns, path)
    for name in (*texts, label):
        refuse_cells_of_no_text(path, name, table[name].to_list())
    examples: list[tuple[str, ...]] = []
    for number, row in enumerate(table.select(*texts, label).iter_rows(), start=1):
        *row_texts, named = (_spelled(value) for value in row)
        if not named:
            raise BadInput(f"{path}, row {number}: the label is missing; give each text one, or drop the row")
        if not all(row_texts):
            raise BadInput(f"{path}, row {number}: the text is missing; give one, or drop the row")
        examples.append((*row_texts, named))
    if not examples:
        raise BadInput(f"{path} has no examples; give {KIND}")
    return examples


def _columns(table: pl.DataFrame, columns: Sequence[str], path: Path) -> Sequence[str]:
    there = ", ".join(table.columns) or "none"
    if columns:
        if len(columns) not in (2, 3):
            raise BadInput("name the columns of the text, or of the two texts, and then that of the label")
        if len(set(columns)) < len(columns):
            raise BadInput(f"the columns {', '.join(columns)} are not all different; name each column once")
        if missing := [name for name in columns if name not in table.columns]:
            raise BadInput(f"{path} has no column {missing[0]}; its columns are {there}")
        return columns
    if LABEL not in table.columns:
        raise BadInput(
            f"{path} has no column '{LABEL}', but {there}; name its columns of text and label with "
            "--task-columns"
        )
    for names in COLUMNS:
        if set(names) <= set(table.columns):
            return [*names, LABEL]
    raise BadInput(
        f"{path} has no column 'text', but {there}; name its columns of text and label with --task-columns"
    )


def _spelled(value: Any) -> str:
    """A cell as text; empty if the cell is."""
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def _distinct(examples: LabelledTexts, path: Path) -> tuple[LabelledTexts, tuple[str, ...]]:
    found = distinct(examples)
    if not (fewer := len(examples) - len(found)):
        return found, ()
    why = "copies count once, and not at all where their labels differ"
    return found, (f"{path.name}: {fewer:,} of {len(examples):,} examples are left out; {why}",)


def _classes(named: list[str], path: Path) -> tuple[str, ...]:
    """The labels in order, numerical if they are numbers."""
    labels = set(named)
    if len(labels) < 2:
        raise BadInput(
            f"every example of {path} has the label '{min(labels)}'; a task needs two classes or more"
        )
    if len(labels) > len(named) / 2:
        raise BadInput(
            f"{path} has {len(labels)} different labels for {len(named)} examples; a label names the "
            "class of many texts: make classes of numbers, or name another column with --task-columns"
        )
    if all(WHOLE_NUMBER.fullmatch(label) for label in labels):
        return tuple(sorted(labels, key=lambda label: (int(label), label)))
    return tuple(sorted(labels))


def _labelled(rows: list[tuple[str, ...]], classes: tuple[str, ...]) -> LabelledTexts:
    number = {name: place for place, name in enumerate(classes)}
    texts, *seconds, labels = zip(*rows, strict=True)
    return LabelledTexts(texts, seconds[0] if seconds else None, tuple(number[label] for label in labels))


def _check(task: TextTask, path: Path, test: Path | None) -> None:
    trained = set(task.train.labels)
    if test is not None and (unseen := set(task.test.labels) - trained):
        raise BadInput(
            f"{test} has the label '{task.classes[min(unseen)]}', which no training example of {path} has"
        )
    if not trained or len(task.test) < 2 or not len(task.validation):
        parts = {"test": task.test, "validation": task.validation, "train": task.train}
        sizes = ", ".join(f"{len(part)} for {name}" for name, part in parts.items())
        raise BadInput(
            f"the examples of {path} divide into {sizes}, which is too few for {len(task.classes)} classes "
            "to be learnt and tested; give more examples: those that share a text, also through others, stay "
            "in one part"
        )
    if len(trained) < 2:
        raise BadInput(
            f"all {len(task.train)} examples of {path} that are for training, as a hash of the text decides, "
            f"have the label '{task.classes[min(trained)]}'; give more examples of other classes to be learnt"
        )
