"""All statements that are tested, in the order in which they are shown, and their results as JSON files."""

import hashlib
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from isoloss import __version__
from isoloss.errors import BadInput, Damaged, did_you_mean
from isoloss.panels import Axis, Categories, Chart, Colour, Dots, Landscape, Lines, Panel, Table
from isoloss.progress import Progress
from isoloss.results.store import read_sealed, write_sealed
from isoloss.theory import (
    adamw_coin,
    adamw_factors,
    appendix_b_4,
    downstream_error,
    flattest_solution,
    hidden_units,
    lemma_3_2,
    lemma_g_1,
    lemma_g_3,
    lemma_g_4,
    nested_minimisers,
    theorem_3_3,
    theorem_3_3_coin,
    theorem_5_1,
    theorem_g_6,
)
from isoloss.theory.finding import Entry, Finding, Statement

SUITE: tuple[Entry, ...] = (
    lemma_3_2.ENTRY,
    theorem_3_3_coin.ENTRY,
    theorem_3_3.FACTORS,
    theorem_3_3.TRANSFORMER,
    lemma_g_4.ENTRY,
    lemma_g_1.ENTRY,
    lemma_g_3.ENTRY,
    theorem_g_6.ENTRY,
    flattest_solution.ENTRY,
    hidden_units.ENTRY,
    theorem_5_1.ENTRY,
    downstream_error.ENTRY,
    nested_minimisers.ENTRY,
    appendix_b_4.ENTRY,
    adamw_coin.ENTRY,
    adamw_factors.ENTRY,
)


def named(name: str) -> tuple[Entry, ...]:
    """The entry of this name, or all parts of it. Raises BadInput if there is none.

    >>> [entry.name for entry in named("theorem-3.3")]
    ['theorem-3.3-coin', 'theorem-3.3-factors', 'theorem-3.3-transformer']
    """
    found = tuple(entry for entry in SUITE if entry.name == name or entry.name.startswith(f"{name}-"))
    if not found:
        known = [entry.name for entry in SUITE]
        near = did_you_mean(name, known) or f"; choose among {', '.join(known)}"
        raise BadInput(f"no statement is called {name!r}{near}")
    return found


_CHARTS: dict[str, type[Chart]] = {
    kind.__name__: kind for kind in (Dots, Lines, Categories, Table, Landscape)
}
_DTYPES: dict[str, type[pl.DataType]] = {
    "Int64": pl.Int64,
    "Float64": pl.Float64,
    "String": pl.String,
    "Boolean": pl.Boolean,
}


def write_statement(path: Path, statement: Statement) -> None:
    """Write the statement, complete or not at all.

    Raises BadInput for a table with a column that is not of integers, numbers, strings or booleans, and
    IsolossError if the file cannot be written.
    """
    write_sealed(path, statement_content(statement), path.name)


def read_statement(path: Path) -> Statement:
    """The statement that `write_statement` wrote. Raises Damaged if the file contains none."""
    try:
        return _statement(read_sealed(path, path.name))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Damaged(
            f"{path} does not hold a statement's results ({error.__cause__ or error}); delete it, and they "
            "are computed again"
        ) from error


def statement_content(statement: Statement) -> dict[str, Any]:
    """Everything as lists, numbers and words; verdicts are added for readers, and numbers that JSON lacks
    ("nan", "inf", "-inf") are words.
    """
    return {
        **{name: getattr(statement, name) for name in ("name", "title", "text")},
        "findings": [
            _finite(asdict(finding)) | {"verdict": str(finding.verdict)} for finding in statement.findings
        ],
        "panels": [
            {
                **{name: getattr(panel, name) for name in ("name", "title", "caption")},
                "charts": [{"kind": type(chart).__name__, **asdict(chart)} for chart in panel.charts],
                "data": _frame_content(panel.data),
            }
            for panel in statement.panels
        ],
        "settings": [list(setting) for setting in statement.settings],
        "corrections": list(statement.corrections),
    }


def _statement(content: dict[str, Any]) -> Statement:
    return Statement(
        **{name: str(content[name]) for name in ("name", "title", "text")},
        findings=tuple(map(_finding, content["findings"])),
        panels=tuple(
            Panel(
                name=str(panel["name"]),
                title=str(panel["title"]),
                caption=str(panel["caption"]),
                charts=tuple(map(_chart, panel["charts"])),
                data=_frame(panel["data"]),
            )
            for panel in content["panels"]
        ),
        settings=tuple((name, value) for name, value in content["settings"]),
        corrections=tuple(content["corrections"]),
    )


def _finding(content: dict[str, Any]) -> Finding:
    numbers = ("predicted", "measured", "standard_error", "tolerance")
    values = {name: value for name, value in content.items() if name != "verdict"}
    for name in numbers:
        values[name] = None if values[name] is None else float(values[name])
    return Finding(**values)


def _chart(content: dict[str, Any]) -> Chart:
    values = {name: _part(value) for name, value in content.items() if name != "kind"}
    return _CHARTS[content["kind"]](**values)


def _part(value: Any) -> Any:
    """A chart's axis, colour, or several of them; strings and numbers unchanged."""
    if isinstance(value, list):
        return tuple(map(_part, value))
    if isinstance(value, dict):
        return Colour(**value) if "ordered" in value else Axis(**value)
    return value


def _frame_content(frame: pl.DataFrame) -> list[dict[str, Any]]:
    columns = []
    for column in frame.iter_columns():
        dtype = str(column.dtype)
        if dtype not in _DTYPES:
            raise BadInput(
                f"the column {column.name!r} holds {dtype}; a statement's tables hold {[*_DTYPES]}"
            )
        values = [_finite_number(value) for value in column.to_list()]
        columns.append({"name": column.name, "dtype": dtype, "values": values})
    return columns


def _frame(content: list[dict[str, Any]]) -> pl.DataFrame:
    columns = []
    for column in content:
        values = column["values"]
        if column["dtype"] == "Float64":
            values = [None if value is None else float(value) for value in values]
        columns.append(pl.Series(column["name"], values, _DTYPES[column["dtype"]]))
    return pl.DataFrame(columns)


def _finite(content: dict[str, Any]) -> dict[str, Any]:
    return {name: _finite_number(value) for name, value in content.items()}


def _finite_number(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class PlannedStatement:
    """A statement at given settings, one of an entry's two sizes or others."""

    entry: Entry
    settings: Any

    @property
    def name(self) -> str:
        """The statement's name."""
        return self.entry.name

    def file(self, folder: Path) -> Path:
        """Named after the settings and isoloss's version, on which the results depend."""
        content = f"{self.name} {__version__} {self.settings!r}"
        return folder / f"{self.name}-{hashlib.sha256(content.encode()).hexdigest()[:12]}.json"

    def saved(self, folder: Path) -> Statement | None:
        """The existing results; none if there are none or the file is damaged."""
        path = self.file(folder)
        return read_statement(path) if path.exists() and not self.damage(folder) else None

    def damage(self, folder: Path) -> str:
        """What is wrong with the existing results, which count as missing; empty if nothing is."""
        path = self.file(folder)
        try:
            if path.exists():
                read_statement(path)
        except Damaged as error:
            return str(error).partition("; delete")[0]
        return ""

    def carry_out(self, folder: Path, progress: Progress) -> None:
        """Compute the statement into its file, unless it exists."""
        if self.saved(folder) is None:
            write_statement(self.file(folder), self.entry.compute(self.settings, progress))


def stored_statements(folder: Path, *, smoke: bool) -> tuple[tuple[Statement, ...], tuple[str, ...]]:
    """The suite's statements, at their small or full size, that have been computed into `folder`.

    And a sentence for each file that is damaged.
    """
    planned = [PlannedStatement(entry, entry.smoke if smoke else entry.full) for entry in SUITE]
    found = tuple(saved for each in planned if (saved := each.saved(folder)) is not None)
    damages = (
        f"{damage}; `isoloss theory {each.name}{' --smoke' if smoke else ''}` computes it again"
        for each in planned
        if (damage := each.damage(folder))
    )
    return found, tuple(damages)
