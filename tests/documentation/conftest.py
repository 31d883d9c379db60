"""Lets these tests import the scripts that write the documentation's pages."""

import sys
from collections.abc import Iterator

import pytest

from page_blocks import ROOT

EXTENSIONS = ROOT / "docs" / "extensions"


@pytest.fixture(autouse=True, scope="module")
def _extensions() -> Iterator[None]:
    # Of a module, not of each test: the scripts remember what they have read of the results.
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(EXTENSIONS)
        yield
    for path in EXTENSIONS.glob("*.py"):
        sys.modules.pop(path.stem, None)
