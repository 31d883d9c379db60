"""The guide's program is run."""

import re
from pathlib import Path

import pytest

GUIDE = (Path(__file__).parent.parent / "docs" / "large-runs.md").read_text()


def test_the_program_tells_cost_speed_and_losses(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
    exec(program, {"__name__": "guide"})
    cost, share, *told = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d\.\de-\d\d hours, \d+\.\d MB", cost)
    assert re.fullmatch(r"\d+% of this machine's processor \(float32, measured: [\d,.]+ GFLOP/s\)", share)
    assert [line.split(" ", 1)[0] for line in told] == ["10", "10", "20", "20"]
