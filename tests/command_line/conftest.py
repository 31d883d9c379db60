import pytest

import isoloss.command_line.progress_display as display


@pytest.fixture(autouse=True)
def no_announcement(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one process the first test to import torch would tell of it; where it is told is tested apart."""
    monkeypatch.setattr(display, "PATIENCE_SECONDS", 3600.0)
