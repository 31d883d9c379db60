"""Everything that must not lose, run or silently change anything: `python tests/torture/torture.py`.

Prints its progress, each thing that went wrong, and a table of counts. Exits with 1 if any did. With
`--state FILE`, repeating an interrupted call continues with what it had not tried.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS / name) for name in (".", "torture", "experiments", "pretraining", "corpora")]

import torch  # noqa: E402
from byte_flips import flips  # noqa: E402
from fuzzed_inputs import fuzzed, good_files, inputs  # noqa: E402
from kill_points import in_child, kills, operations_of  # noqa: E402
from planted_payloads import planted, readers_of  # noqa: E402
from ray_node import RAY, has_ray, kills_on_ray  # noqa: E402
from scenarios import SCENARIOS, a_folder_of_everything  # noqa: E402

SECONDS_BETWEEN_LINES = 30.0


@dataclass(frozen=True)
class Trial:
    """One trial: its kind, its outcome, and a line if that is wrong."""

    kind: str
    outcome: str
    wrong: str | None = None


def flipped(place: Path, count: int, done: int) -> Iterator[Trial]:
    """`count` bytes of a results folder, a cache and kept measurements."""
    folder = place / "everything"

    def told() -> Iterator[str]:
        for each in islice(flips(folder, count, done=done), count - done):
            yield f"{each.outcome}\t{each.file}, byte {each.place}"

    for line in _lines_of_child(told):
        outcome, where = line.split("\t")
        wrong = f"{where}: {outcome}" if outcome in ("silently other", "traceback") else None
        yield Trial("flipped bytes", outcome, wrong)


def fed(place: Path, count: int, done: int) -> Iterator[Trial]:
    """`count` inputs to the command line."""
    folder = place / "everything"
    good_files(folder)
    for each in fuzzed(islice(inputs(count, folder / "results"), done, None), folder):
        asked = f"{' '.join(each.input.arguments)[:200]} with {each.input.content[:80]!r}"
        wrong = f"{asked}: {each.wrong}" if each.wrong else None
        yield Trial("fuzzed inputs", "wrong" if wrong else "answered", wrong)


def with_code(place: Path, count: int, done: int) -> Iterator[Trial]:
    """`count` payloads, over all files; then what reads the file does so."""
    everything, apart = place / "everything", place / "apart"
    apart.mkdir()
    os.environ["XDG_CACHE_HOME"] = str(apart / "cache")  # where `compare` keeps what it measures
    readers = partial(readers_of, everything=everything, apart=apart)
    for file, form, ran in planted(everything, readers, place / "executed", count, done):
        wrong = f"{file} as {form} was executed" if ran else None
        yield Trial("planted payloads", "executed" if ran else "not executed", wrong)


def killed(place: Path, count: int, done: int) -> Iterator[Trial]:
    """About `count` kills: before each operation of each scenario, and again until there are as many."""
    whole = {each: place / f"whole {each.name}" for each in SCENARIOS}
    points = {each: operations_of(each, folder) for each, folder in whole.items()}
    share = count / sum(points.values())
    for scenario, most in points.items():
        wanted = max(1, round(most * share))
        step = max(1, most // wanted)
        chosen = list(islice(cycle(range(1, most + 1, step)), wanted))
        left, done = chosen[done:], max(0, done - wanted)
        kind, kill = f"kills of {scenario.name}", kills
        if scenario.name == RAY and has_ray():
            kill = kills_on_ray
        elif scenario.name == RAY:
            print(
                "ray is not installed: what its node would do is done in a process of this machine",
                flush=True,
            )
            kind += "'s work, without Ray"
        for each in kill(scenario, place, iter(left), whole[scenario]):
            wrong = f"{each.scenario}, before operation {each.point}: {each.wrong}" if each.wrong else None
            yield Trial(kind, "lost" if wrong else "nothing lost", wrong)


def _lines_of_child(lines: Callable[[], Iterator[str]]) -> Iterator[str]:
    """What a generator gives in a forked child: this process must not start the threads that it needs."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(theirs, "w") as out:
                out.writelines(f"{line}\n" for line in lines())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as read:
        yield from (line.rstrip("\n") for line in read)
    os.waitpid(child, 0)


PARTS: dict[str, Callable[[Path, int, int], Iterator[Trial]]] = {
    "flip": flipped,
    "payload": with_code,
    "kill": killed,
    "feed": fed,
}
"""What is tried, in its order: of each so many, less those that were done before."""


@dataclass
class Tally:
    """What came of every trial so far, and how many of each part were made; kept in a file, if in any."""

    asked: dict[str, int]
    file: Path | None
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def take_up(self) -> None:
        """Go on from the file, where it is of a call that was asked for as much."""
        if self.file is None or not self.file.exists():
            return
        kept = json.loads(self.file.read_text())
        if kept["asked"] == self.asked:
            self.counts = {kind: Counter(outcomes) for kind, outcomes in kept["counts"].items()}
            self.done, self.wrong = Counter(kept["done"]), kept["wrong"]

    def add(self, part: str, trial: Trial) -> None:
        """Count a trial, and report it if it went wrong."""
        self.counts.setdefault(trial.kind, Counter())[trial.outcome] += 1
        self.done[part] += 1
        if trial.wrong:
            self.wrong.append(trial.wrong)
            print(trial.wrong, flush=True)

    def keep(self) -> None:
        """Write the file."""
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            kept = {"asked": self.asked, "counts": self.counts, "done": self.done, "wrong": self.wrong}
            self.file.write_text(json.dumps(kept))

    def table(self) -> str:
        """A row per kind of trial."""
        rows = []
        for kind, outcomes in self.counts.items():
            said = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(outcomes.items()))
            rows.append(f"| {kind} | {outcomes.total():,} | {said} |")
        return "\n".join(rows)


def torture(asked: dict[str, int], state: Path | None) -> bool:
    """Try so much of each of PARTS, print what came of it, and say whether all went well.

    Interrupted, what was counted is printed and kept.
    """
    torch.set_num_threads(1)
    tally = Tally(asked, state)
    tally.take_up()
    with tempfile.TemporaryDirectory() as named, suppress(KeyboardInterrupt):
        place = Path(named)
        if in_child(lambda: a_folder_of_everything(place / "everything")):
            raise RuntimeError("no folder to harm could be made")
        for part, tried in PARTS.items():
            if tally.done[part] < asked[part]:
                _try(part, tried(place, asked[part], tally.done[part]), tally)
    if state is not None and all(tally.done[part] >= count for part, count in asked.items()):
        state.unlink(missing_ok=True)  # the next call starts afresh
    else:
        tally.keep()
    print(tally.table(), flush=True)
    return not tally.wrong


def _try(part: str, trials: Iterator[Trial], tally: Tally) -> None:
    """Make the trials of a part, telling every half minute how many there were."""
    begun = told = time.monotonic()
    before = tally.done[part]
    for trial in trials:
        tally.add(part, trial)
        if (now := time.monotonic()) - told >= SECONDS_BETWEEN_LINES:
            told, made = now, tally.done[part]
            left = (now - begun) / (made - before) * (tally.asked[part] - made)
            print(f"{part}: {made:,} of {tally.asked[part]:,}, about {left:,.0f} s left", flush=True)
            tally.keep()
    tally.done[part] = max(tally.done[part], tally.asked[part])  # there may be fewer to be made


def main() -> None:
    """Read the counts and torture."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell takes from what it starts behind
    read = argparse.ArgumentParser(description=__doc__)
    for name, count in (("flip", 10_000), ("feed", 5000), ("payload", 1000), ("kill", 500)):
        read.add_argument(f"--{name}", type=int, default=count)
    read.add_argument("--state", type=Path, default=None)
    asked = vars(read.parse_args())
    state = asked.pop("state")
    sys.exit(0 if torture(asked, state) else 1)


if __name__ == "__main__":
    main()
