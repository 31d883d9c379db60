"""All statements that are tested, in the order in which they are shown, and their results as JSON files.

Those computed at full size are shipped with the package, without pictures.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from isoloss import __version__
from isoloss.errors import Damaged
from isoloss.progress import Progress
from isoloss.results.store import read_sealed, write_sealed
from isoloss.results.tensors import as_plain, from_plain
from isoloss.theory import STATEMENTS, statements_named
from isoloss.theory.finding import Entry, Statement

SUITE: tuple[Entry, ...] = tuple(
    import_module(f"{__package__}.{re.sub('[-.]', '_', name)}").ENTRY for name in STATEMENTS
)


def named(name: str) -> tuple[Entry, ...]:
    """The entry of this name, or all parts of it. Raises BadInput if there is none.

    >>> [entry.name for entry in named("theorem-3.3")]
    ['theorem-3.3-coin', 'theorem-3.3-factors', 'theorem-3.3-transformer']
    """
    wanted = statements_named(name)
    return tuple(entry for entry in SUITE if entry.name in wanted)


def write_statement(path: Path, statement: Statement) -> None:
    """Write the statement, complete or not at all.

    Raises BadInput for a table with a column that is not of integers, numbers, strings or booleans, and
    IsolossError if the file cannot be written.
    """
    write_sealed(path, statement_content(statement), path.name)


def read_statement(path: Path) -> Statement:
    """The statement that `write_statement` wrote. Raises Damaged if the file contains none."""
    try:
        found: Statement = from_plain(Statement, read_sealed(path, path.name))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        reason = str(error.__cause__ or error).partition(";")[0]  # without what to do about it
        raise Damaged(
            f"{path} does not hold a statement's results ({reason}); delete it, and they are computed again"
        ) from error
    return found


def statement_content(statement: Statement) -> dict[str, Any]:
    """Everything as plain data (see `as_plain`); verdicts are added for readers."""
    content: dict[str, Any] = as_plain(Statement, statement)
    for finding, written in zip(statement.findings, content["findings"], strict=True):
        written["verdict"] = str(finding.verdict)
    return content


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

    def read(self, folder: Path) -> tuple[Statement | None, str]:
        """The existing results, if any, and what is wrong with damaged ones, which count as missing."""
        path = self.file(folder)
        try:
            return read_statement(path) if path.exists() else None, ""
        except Damaged as error:
            return None, str(error).partition("; delete")[0]

    def carry_out(self, folder: Path, progress: Progress) -> tuple[str, ...]:
        """Compute the statement into its file, unless it exists; as a job, it has nothing to report."""
        if self.read(folder)[0] is None:
            write_statement(self.file(folder), self.entry.compute(self.settings, progress))
        return ()


def stored_statements(folder: Path, *, smoke: bool) -> tuple[tuple[Statement, ...], tuple[str, ...]]:
    """The suite's statements, at their small or full size, that have been computed into `folder`.

    And a sentence for each file that is damaged.
    """
    read = {
        entry.name: PlannedStatement(entry, entry.smoke if smoke else entry.full).read(folder)
        for entry in SUITE
    }
    damages = (
        f"{damage}; `isoloss theory {name}{' --smoke' if smoke else ''}` computes it again"
        for name, (_, damage) in read.items()
        if damage
    )
    return tuple(found for found, _ in read.values() if found is not None), tuple(damages)


FILE = "theory.json"


@dataclass(frozen=True)
class ShippedStatements:
    """All statements of `isoloss theory`, and the commit whose programs computed them."""

    commit: str
    statements: tuple[Statement, ...]


@cache
def shipped_statements() -> ShippedStatements:
    """Those in the package.

    >>> shipped_statements().statements[0].name
    'lemma-3.2'
    """
    content = json.loads(files("isoloss.reference").joinpath(FILE).read_text("utf-8"))
    statements = tuple(from_plain(Statement, {**each, "panels": []}) for each in content["statements"])
    return ShippedStatements(content["commit"], statements)


def write_shipped(statements: Sequence[Statement], commit: str, path: Path) -> None:
    """The file that `shipped_statements` reads; verdicts are added for readers."""
    shown = [statement_content(replace(each, panels=())) for each in statements]
    for each in shown:
        del each["panels"]
    content = json.dumps({"commit": commit, "statements": shown}, indent=1, ensure_ascii=False)
    path.write_text(f"{content}\n", "utf-8")
