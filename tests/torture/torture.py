"""Everything that must not lose, run or silently change anything: `python tests/torture/torture.py`.

Prints a table of counts, and each thing that went wrong. Ends with 1 where any did.
"""

import argparse
import os
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, cycle, islice
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS / name) for name in (".", "torture", "experiments", "pretraining", "corpora")]

import torch  # noqa: E402
from byte_flips import flips  # noqa: E402
from fuzzed_inputs import fuzzed, good_files, inputs  # noqa: E402
from kill_points import in_child, kills, operations_of  # noqa: E402
from planted_payloads import planted  # noqa: E402
from scenarios import SCENARIOS, a_folder_of_everything  # noqa: E402


@dataclass(frozen=True)
class Trial:
    """One thing that was tried: of what kind, what came of it, and a line where that is wrong."""

    kind: str
    outcome: str
    wrong: str | None = None


def flipped(place: Path, count: int) -> Iterator[Trial]:
    """`count` bytes of a results folder, a cache and kept measurements."""
    folder = place / "everything"

    def told() -> Iterator[str]:
        for each in flips(folder, count):
            yield f"{each.outcome}\t{each.file}, byte {each.place}"

    for line in _lines_of_child(told):
        outcome, where = line.split("\t")
        wrong = f"{where}: {outcome}" if outcome in ("silently other", "traceback") else None
        yield Trial("flipped bytes", outcome, wrong)


def fed(place: Path, count: int) -> Iterator[Trial]:
    """`count` inputs to the command line."""
    folder = place / "everything"
    good_files(folder)
    for each in fuzzed(inputs(count, folder / "results"), folder):
        asked = f"{' '.join(each.input.arguments)[:200]} with {each.input.content[:80]!r}"
        wrong = f"{asked}: {each.wrong}" if each.wrong else None
        yield Trial("fuzzed inputs", "wrong" if wrong else "answered", wrong)


def with_code(place: Path, count: int) -> Iterator[Trial]:
    """`count` payloads, in one file after the other."""
    folder = place / "everything" / "results"
    run = str(min((folder / "runs").iterdir()))
    read = [["runs", str(folder)], ["show", run], ["inspect", f"{run}/steps/000004"]]
    read += [
        ["records", "pack", str(folder), str(place / "packed.parquet")],
        ["sample", f"{run}/language.json"],
    ]
    for file, form, ran in islice(planted(folder, read, place / "executed"), count):
        wrong = f"{file} as {form} was executed" if ran else None
        yield Trial("planted payloads", "executed" if ran else "not executed", wrong)


def killed(place: Path, count: int) -> Iterator[Trial]:
    """About `count` kills: before each operation of each scenario, and again until there are as many."""
    whole = {each: place / f"whole {each.name}" for each in SCENARIOS}
    points = {each: operations_of(each, folder) for each, folder in whole.items()}
    share = count / sum(points.values())
    for scenario, most in points.items():
        wanted = max(1, round(most * share))
        step = max(1, most // wanted)
        for each in kills(scenario, place, islice(cycle(range(1, most + 1, step)), wanted), whole[scenario]):
            wrong = f"{each.scenario}, before operation {each.point}: {each.wrong}" if each.wrong else None
            yield Trial(f"kills of {scenario.name}", "lost" if wrong else "nothing lost", wrong)


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


def torture(flip: int, feed: int, payload: int, kill: int) -> bool:
    """Try so many flips, inputs, payloads and kills, print what came of them, and say whether all went well.

    Interrupted, what was counted is printed.
    """
    torch.set_num_threads(1)
    counts: dict[str, Counter[str]] = {}
    well = True
    with tempfile.TemporaryDirectory() as named:
        place = Path(named)
        if in_child(lambda: a_folder_of_everything(place / "everything")):
            raise RuntimeError("no folder to harm could be made")
        parts = ((flipped, flip), (with_code, payload), (killed, kill), (fed, feed))
        tried = chain.from_iterable(part(place, count) for part, count in parts if count)
        with suppress(KeyboardInterrupt):
            for trial in tried:
                counts.setdefault(trial.kind, Counter())[trial.outcome] += 1
                if trial.wrong:
                    well = False
                    print(trial.wrong, flush=True)
    for kind, outcomes in counts.items():
        said = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(outcomes.items()))
        print(f"| {kind} | {outcomes.total():,} | {said} |", flush=True)
    return well


def main() -> None:
    """Read the counts and torture."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell takes from what it starts behind
    read = argparse.ArgumentParser(description=__doc__)
    for name, count in (("flip", 10_000), ("feed", 5000), ("payload", 1000), ("kill", 500)):
        read.add_argument(f"--{name}", type=int, default=count)
    sys.exit(0 if torture(**vars(read.parse_args())) else 1)


if __name__ == "__main__":
    main()
