"""Lets these tests import the scripts that write the documentation's pages."""

import sys
from collections.abc import Iterator

import pytest

from page_blocks import ROOT

EXTENSIONS = ROOT / "docs" / "extensions"


@pytest.fixture(autouse=True)
def _extensions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(EXTENSIONS)
    yield
    for path in EXTENSIONS.glob("*.py"):
        sys.modules.pop(path.stem, None)
