"""Statements from their settings to their files: what was computed once is not computed again."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isoloss import __version__
from isoloss.errors import BadInput
from isoloss.progress import Progress
from isoloss.theory.finding import Statement
from isoloss.theory.statement_file import read_statement, write_statement
from isoloss.theory.suite import SUITE, Entry


@dataclass(frozen=True)
class PlannedStatement:
    """A statement at given settings, one of an entry's two sizes or others."""

    entry: Entry
    settings: Any

    @property
    def name(self) -> str:
        """The statement's."""
        return self.entry.name

    def file(self, folder: Path) -> Path:
        """Named for the settings and for isoloss's version, on which the results depend."""
        content = f"{self.name} {__version__} {self.settings!r}"
        return folder / f"{self.name}-{hashlib.sha256(content.encode()).hexdigest()[:12]}.json"

    def saved(self, folder: Path) -> Statement | None:
        """The results that are there already; none where they are not, or where the file is damaged."""
        path = self.file(folder)
        try:
            return read_statement(path) if path.exists() else None
        except BadInput:
            return None

    def carry_out(self, folder: Path, progress: Progress) -> None:
        """Compute the statement into its file, unless it is there."""
        if self.saved(folder) is None:
            write_statement(self.file(folder), self.entry.compute(self.settings, progress))


def kept_statements(folder: Path, *, smoke: bool) -> tuple[Statement, ...]:
    """The suite's statements, at their small or their full size, that have been computed into `folder`."""
    planned = (PlannedStatement(entry, entry.smoke if smoke else entry.full) for entry in SUITE)
    return tuple(found for each in planned if (found := each.saved(folder)) is not None)
