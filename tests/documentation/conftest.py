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


@pytest.fixture
def _planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are read beside the suite that other tests have planned."""
    import results_shipped

    from planned_suite import planned_suite  # within: before `pytest_configure` nothing would be checked

    monkeypatch.setattr(results_shipped, "every_experiment", lambda scale: planned_suite(scale.name))
