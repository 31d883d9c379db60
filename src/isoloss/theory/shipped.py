"""The statements as computed at full size and shipped with the package: their findings, without pictures."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from isoloss.results.plain_data import from_plain
from isoloss.theory.finding import Statement
from isoloss.theory.suite import statement_content

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
    content = json.loads(files("isoloss.reference").joinpath(FILE).read_text())
    statements = tuple(from_plain(Statement, {**each, "panels": []}) for each in content["statements"])
    return ShippedStatements(content["commit"], statements)


def write_shipped(statements: Sequence[Statement], commit: str, path: Path) -> None:
    """The file that `shipped_statements` reads; verdicts are added for readers."""
    told = [statement_content(replace(each, panels=())) for each in statements]
    for each in told:
        del each["panels"]
    path.write_text(json.dumps({"commit": commit, "statements": told}, indent=1, ensure_ascii=False) + "\n")
