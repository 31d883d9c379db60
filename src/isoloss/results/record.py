"""A measured number with its unit, error bar, n and provenance; files of such records; how it is shown."""

import io
import json
import math
import sys
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from isoloss.errors import BadInput, Damaged
from isoloss.files import file_content, file_digest, write_atomically
from isoloss.results.store import SEAL, json_digest

Setting = str | int | float | bool | None
STRENGTHS = ("radius", "noise", "bits", "rank", "eigenvalue")
"""Settings that tell apart records of one quantity of one model."""


@dataclass(frozen=True)
class Record:
    """A measured number; every number that is shown is one.

    `standard_error` is None only if the number is exact. `n` counts the independent units behind the error
    bar (sentences, unless the quantity's own documentation says otherwise). `checkpoint` names the model
    measured and is empty for a property of the language alone. `settings` holds what distinguishes records of
    the same quantity, such as a step, a size or a task.

    As text it is the number with its error, see `as_text`.

    >>> print(Record("mean_length", 16.0, "words", 0.25, 1000))
    16.00 ± 0.25
    """

    quantity: str
    value: float
    unit: str
    standard_error: float | None
    n: int
    seed: int | None = None
    checkpoint: str = ""
    settings: dict[str, Setting] = field(default_factory=dict)

    def __str__(self) -> str:
        return as_text(self.value, self.standard_error)


Values = dict[str, np.ndarray]
"""By `value_name` one float64 value a sentence, whose mean is the record's value and s / √n its error."""
VALUES = "values"
"""Under which a line keeps the digest of the file of values beside the records."""


def write_records(
    path: Path, records: Sequence[Record], name: str, values: Mapping[str, Any] | None = None
) -> None:
    """Write a file of exactly these records, complete or absent.

    Their values (arrays or tensors by `value_name`), if any, are written first, into a compressed NumPy
    archive beside it that ends in `.npz`. Each line is a JSON object with the fields of `Record`, and the
    digest of `name`, of all lines and of the values' file: `polars.read_ndjson(path,
    infer_schema_length=None)` (all lines, since settings differ) and DuckDB's `read_json` read it.

    Raises BadInput for a number that is not finite, IsolossError where the file cannot be written.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "records.jsonl"
    >>> entropy = Record("masked_entropy", 1.25, "nats", 0.01, 2000, settings={"task": "root"})
    >>> write_records(path, [entropy], "entropy")
    >>> read_records(path, "entropy") == [entropy]
    True
    """
    beside = {}
    if values:
        content = io.BytesIO()
        arrays: dict[str, Any] = {key: np.asarray(each, np.float64) for key, each in values.items()}
        np.savez_compressed(content, **arrays)
        write_atomically(path.with_suffix(".npz"), content.getvalue())
        beside = {VALUES: file_digest(path.with_suffix(".npz"))}
    write_atomically(path, "".join(_lines(records, name, beside)))


def read_records(path: Path, name: str) -> list[Record]:
    """All records of the file, in the order in which they were written; none if there is no file.

    Raises Damaged, naming the line, if a line is not a record, and if the records, or the values beside them,
    are not those that were written under that name.
    """
    return _verified(path, name)[0]


def _verified(path: Path, name: str) -> tuple[list[Record], bool]:
    """The records of the file, and whether there are values beside them."""
    if not path.exists():
        return [], False
    try:
        content = file_content(path)
    except OSError as error:
        raise Damaged(f"{path} cannot be read ({error.strerror}); delete it to measure again") from error
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    found = [_parse(line, number, path) for number, line in enumerate(lines, start=1)]
    records, marked = [record for record, _ in found], {marks for _, marks in found}
    beside: dict[str, Setting] = {}
    for digest, of_values in marked:
        beside = {VALUES: of_values} if of_values is not None else {}
        if len(marked) > 1 or digest != _batch_digest(records, name, beside):
            raise Damaged(f"{path} is damaged or not what its name says; delete it to measure again")
        if beside and not _is(path.with_suffix(".npz"), str(of_values)):
            raise Damaged(
                f"{path.with_suffix('.npz')} is damaged or missing; delete {path.name} beside it to measure "
                "again"
            )
    return records, bool(beside)


def read_values(path: Path, name: str) -> Values:
    """The values beside the records in `path`; empty if there are none. Raises as `read_records` does.

    >>> read_values(Path("none.jsonl"), "none")
    {}
    """
    if not _verified(path, name)[1]:
        return {}
    beside = path.with_suffix(".npz")
    try:
        with np.load(beside, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise Damaged(
            f"{beside} is damaged ({error}); delete it, and the records beside it to measure again"
        ) from error


def _lines(records: Sequence[Record], name: str, beside: dict[str, str]) -> list[str]:
    """The records as lines of JSON with their digest."""
    for record in records:
        _refuse_unwritable(record)
    digest = _batch_digest(records, name, beside)
    whole = [{**vars(record), **beside, SEAL: digest} for record in records]
    return [json.dumps(line, allow_nan=False, ensure_ascii=False) + "\n" for line in whole]


def _batch_digest(records: Sequence[Record], name: str, beside: dict[str, Any]) -> str:
    return json_digest([name, [vars(record) for record in records], beside])  # asdict would copy


def _is(path: Path, digest: str) -> bool:
    try:
        return file_digest(path) == digest
    except OSError:
        return False


def _refuse_unwritable(record: Record) -> None:
    numbers = [record.value, record.standard_error or 0.0]
    numbers += [value for value in record.settings.values() if isinstance(value, float)]
    if not all(map(math.isfinite, numbers)):
        raise BadInput(
            f"the record {record.quantity} of '{record.checkpoint}' holds a number that is not finite "
            f"({record.value} ± {record.standard_error}); it is not written"
        )


def _parse(line: bytes, number: int, path: Path) -> tuple[Record, tuple[Setting, Setting]]:
    """A line's record, the digest of those that it was written with, and that of their values."""
    try:
        content = json.loads(line)
        marks = content.pop(SEAL, None), content.pop(VALUES, None)
        record = Record(**content)
        numbers = (record.value, record.standard_error or 0.0, record.n, record.seed or 0)
        words = (record.quantity, record.unit, record.checkpoint, *(mark or "" for mark in marks))
        if not all(isinstance(each, int | float) for each in numbers) or not all(
            isinstance(each, str) for each in words
        ):
            raise TypeError("a value is no number, or a name no text")
        if not isinstance(record.settings, dict):
            raise TypeError("the settings have no names")
        return record, marks
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(
            f"{path}: line {number} is not a record ({error}); delete the file to measure again"
        ) from error


def value_name(record: Record) -> str:
    """The key of a record's values: its quantity, and the part of the model it belongs to.

    >>> value_name(Record("fisher_trace_of_group", 1.0, "", 0.1, 9, settings={"group": "embeddings"}))
    'fisher_trace_of_group embeddings'
    """
    group = record.settings.get("group")
    return record.quantity if group is None else f"{record.quantity} {group}"


ABSENT = "–"
"""Shown in place of a missing number."""


def settings_by_path(settings: Any, path: str = "") -> dict[str, Setting]:
    """Settings as JSON has them, by their dotted paths; a class's name is at the path of its object.

    >>> settings_by_path({"is": "Run", "rule": {"is": "AdamW", "betas": [0.9, 0.98]}, "seed": 1})
    {'rule': 'AdamW', 'rule.betas': '0.9, 0.98', 'seed': 1}
    """
    if not isinstance(settings, Mapping):
        listed = isinstance(settings, list)
        return {path: ", ".join(map(str, settings)) if listed else settings}
    found: dict[str, Setting] = {}
    for key, value in settings.items():
        if key == "is":
            found |= {path: value} if path else {}
        else:
            found |= settings_by_path(value, f"{path}.{key}".lstrip("."))
    return found


def as_text(value: object, error: float | None = None) -> str:
    """A value of a table as text; a number with an error is rounded to the error's second digit.

    >>> as_text(1.50123, 0.00034), as_text(1.50123), as_text(12000), as_text(None), as_text(True)
    ('1.50123 ± 0.00034', '1.501', '12,000', '–', 'yes')
    >>> as_text(16000.0), as_text(16023.0, 154.0), as_text(1.6e12)
    ('16,000', '16,020 ± 150', '1.6e+12')
    >>> as_text(0.7476, 3.5e-18)  # rounding of sums, not an error
    '0.7476 ± 0'
    """
    match value:
        case None:
            return ABSENT
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}" if error is None else as_text(float(value), error)
        case float() if not math.isfinite(value):
            return ABSENT if math.isnan(value) else str(value).replace("inf", "∞")
        case float():
            return _with_error(value, error)
        case _:
            return str(value)


def digits_that_tell(low: float, high: float) -> int:
    """How many digits an interval is written with in brief: two, or three if its ends are the same in two.

    >>> digits_that_tell(0.89, 1.4), digits_that_tell(1.07, 1.14)
    (2, 3)
    """
    return 2 if f"{low:.2g}" != f"{high:.2g}" else 3


def in_digits(number: float, digits: int) -> str:
    """All of them, also of 1.0, which would otherwise look like a count; whole numbers from 100 on.

    >>> [in_digits(number, 2) for number in (1.0, 40.2, 140.0, 1401.0, math.nan)]
    ['1.0', '40', '140', '1,401', '–']
    >>> in_digits(99.7, 3), in_digits(99.7, 2)
    ('99.7', '100')
    """
    if math.isnan(number):
        return ABSENT
    from_a_hundred_on = abs(float(f"{number:.{digits}g}")) >= 100
    return f"{number:,.0f}" if from_a_hundred_on else f"{number:#.{digits}g}".rstrip(".")


def in_brief(number: float, digits: int = 3) -> str:
    """That many digits, but all of those before the point, up to a billion, rather than an exponent.

    >>> in_brief(1234.5), in_brief(999.7), in_brief(2.0), in_brief(1.6e12), in_brief(math.nan)
    ('1,234', '1,000', '2', '1.6e+12', '–')
    """
    if math.isnan(number):
        return ABSENT
    text = f"{number:.{digits}g}"
    return f"{number:,.0f}" if "e+" in text and abs(number) < 1e9 else text


def _with_error(value: float, error: float | None) -> str:
    if error is None or not math.isfinite(error):
        return in_brief(value, 4)
    if error <= abs(value) * sys.float_info.epsilon:
        return f"{in_brief(value, 4)} ± 0"
    decimals = 1 - math.floor(math.log10(error))
    if -6 <= decimals <= 6:
        places = max(decimals, 0)
        return f"{round(value, decimals):,.{places}f} ± {round(error, decimals):,.{places}f}"
    return f"{value:.4g} ± {error:.2g}"
