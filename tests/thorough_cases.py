"""Cases of a test of which the first run always, and the others with `make test-thorough`."""

from collections.abc import Iterable
from typing import Any

import pytest


def others_thorough(cases: Iterable[Any], quick: int = 1) -> list[Any]:
    """The cases for `pytest.mark.parametrize`, all but the first few marked; a tuple has several values."""
    return [
        case
        if place < quick
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.thorough)
        for place, case in enumerate(cases)
    ]
