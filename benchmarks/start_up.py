"""The first minute: how long help takes, and how soon a command speaks: `python -m benchmarks.start_up`.

Each command is a process of its own, as a shell starts it. Medians, of seconds of a core (what the work takes
on a quiet machine) and of a clock (what one waited here).
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from isoloss.cli import COMMANDS

ISOLOSS = (sys.executable, "-m", "isoloss")
GRAMMAR = "S -> 'a' B [0.5] | 'a' [0.5]\nB -> 'b' [1.0]\n"
ASKED: dict[str, tuple[str, ...]] = {
    "inspect": ("model",),
    "flatness": ("model", "--text", "sentences.txt"),
    "compare": ("model", "other", "--text", "sentences.txt"),
    "enlarge": ("model", "larger", "--width", "2"),
    "language": ("grammar", "--output", "made.pcfg"),
    "probabilities": ("grammar.pcfg", "--sentence", "a b"),
    "entropy": ("grammar.pcfg",),
    "sample": ("grammar.pcfg",),
    "describe": ("grammar.pcfg",),
    "reproduce": ("figure-1", "--scale", "smoke"),
    "theory": ("--smoke",),
    "runs": (".",),
    "show": ("0123abcd",),
    "compare-runs": ("0123abcd", "4567cdef"),
    "records": ("pack", ".", "packed.parquet"),
    "corpus": ("sentences.txt",),
    "task": ("sentences.txt",),
}
"""What each command is asked for: its first words come before it is found that there is no such model."""


@dataclass(frozen=True)
class Start:
    """Seconds until help has ended, of a core and by the clock, and until the first line by the clock."""

    command: str
    help_of_a_core: float
    help: float
    first_line: float | None


def started(name: str, folder: Path, times: int) -> Start:
    helps = [_help((name,), folder) for _ in range(times)]
    lines = [_first_line((name, *ASKED[name]), folder) for _ in range(times)]
    own, waited = (statistics.median(column) for column in zip(*helps, strict=True))
    return Start(name, own, waited, statistics.median(lines))


def overview(folder: Path, times: int) -> Start:
    own, waited = zip(*(_help((), folder) for _ in range(times)), strict=True)
    return Start("", statistics.median(own), statistics.median(waited), None)


def _help(words: Sequence[str], folder: Path) -> tuple[float, float]:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [*ISOLOSS, *words, "--help"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    waited, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, waited


def _first_line(words: Sequence[str], folder: Path) -> float:
    """Until anything is printed, to either stream; then it is ended."""
    start = time.perf_counter()
    command = [*ISOLOSS, *words]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
        assert running.stdout is not None
        said = os.read(running.stdout.fileno(), 1)
        waited = time.perf_counter() - start
        running.kill()
    if not said:
        raise RuntimeError(f"isoloss {' '.join(words)} says nothing")
    return waited


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as named:
        folder = Path(named)
        (folder / "grammar.pcfg").write_text(GRAMMAR)
        (folder / "sentences.txt").write_text("a b\n")
        found = [overview(folder, asked.times), *(started(name, folder, asked.times) for name in COMMANDS)]
    if asked.json:
        print(json.dumps([asdict(each) for each in found]))
        return
    for each in found:
        line = "" if each.first_line is None else f", first line after {each.first_line:.2f} s"
        print(
            f"isoloss {each.command} --help: {each.help_of_a_core:.2f} s of a core, "
            f"{each.help:.2f} s by the clock{line}"
        )


if __name__ == "__main__":
    main()
