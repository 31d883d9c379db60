"""The guide's code is run."""

import re
from pathlib import Path

import pytest

GUIDE = (Path(__file__).parent.parent / "docs" / "update-rules.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)


def test_everything_the_guide_shows_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(BLOCKS) == 1
    exec(BLOCKS[0], {"__name__": "guide"})
    assert re.fullmatch(r"rate 0\.\d+, loss [12]\.\d\d nats\n", capsys.readouterr().out)


def test_every_module_the_guide_names_is_there() -> None:
    names = re.findall(r"`(\w+)\.([A-Z]\w+)`", GUIDE.split("## SGD")[0])
    assert len(names) == 9
    for module, name in names:
        assert hasattr(__import__(f"isoloss.pretraining.{module}", fromlist=[name]), name)
