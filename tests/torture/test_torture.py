"""A sample of `make torture`: a few of each kind, since all of it takes an hour."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = {"flip": 60, "feed": 20, "payload": 4, "kill": 8}


@pytest.mark.slow
def test_a_sample_of_each_torture_loses_runs_and_changes_nothing() -> None:
    # In its own process: its children are forked, which is unsafe in a process with threads.
    asked = [part for name, count in SAMPLE.items() for part in (f"--{name}", str(count))]
    script = Path(__file__).with_name("torture.py")
    done = subprocess.run([sys.executable, script, *asked], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tried = sum(int(number) for number in re.findall(r"^\| [^|]+ \| (\d+) \|", done.stdout, re.MULTILINE))
    assert tried >= sum(SAMPLE.values()) - 2  # kills are so many in each of four pieces of work, rounded
