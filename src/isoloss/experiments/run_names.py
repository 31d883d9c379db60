"""What the runs of built-in experiments are called, from a file: a wrong name need not wait for torch."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Sequence
from importlib.resources import files

from isoloss.errors import BadInput, did_you_mean

SHIPPED = "run_names.json"
"""The file in `reference`; tests compare it with the plans."""

NamesBySeeds = dict[str, list[str]]
"""Names in which `*` stands for the seed, by the seeds, separated by blanks, that each of them has."""


def builtin_run_names(experiment: str, scale: str) -> tuple[str, ...]:
    """The names of a built-in experiment's runs at a scale, its seeds together.

    >>> builtin_run_names("figure-1", "smoke")
    ('width-16-seed-1', 'width-16-seed-2', 'width-32-seed-1', 'width-32-seed-2')
    """
    text = files("isoloss").joinpath("reference", SHIPPED).read_text("utf-8")
    by_seeds: NamesBySeeds = json.loads(text)[experiment][scale]
    return tuple(
        name.replace("*", seed)
        for seeds, patterns in by_seeds.items()
        for name in patterns
        for seed in seeds.split()
    )


def names_by_seeds(names: Sequence[str]) -> NamesBySeeds:
    """The names as the file holds them.

    >>> names_by_seeds(["a-seed-1", "a-seed-2", "b-seed-1-late", "b-seed-2-late"])
    {'1 2': ['a-seed-*', 'b-seed-*-late']}
    """
    seeds: dict[str, list[str]] = defaultdict(list)
    for name in names:
        before, seed, after = re.split(r"(?<=\bseed-)(\d+)", name, maxsplit=1)
        seeds[f"{before}*{after}"].append(seed)
    found: NamesBySeeds = defaultdict(list)
    for pattern, own in seeds.items():
        found[" ".join(own)].append(pattern)
    return dict(found)


def refuse_unknown_runs(experiment: str, names: Sequence[str], known: Collection[str]) -> None:
    """Raise BadInput for a name that no run of the experiment has.

    >>> refuse_unknown_runs("figure-1", ["zebra"], ["seed-1", "seed-2"])
    Traceback (most recent call last):
    isoloss.errors.BadInput: no run of figure-1 is called 'zebra'; its 2 runs are seed-1 to seed-2
    """
    unknown = next((name for name in names if name not in known), None)
    if unknown is None:
        return
    every = [*known]
    listed = (
        f"its {len(every)} runs are {every[0]} to {every[-1]}" if every else "it has none; leave --runs out"
    )
    near = did_you_mean(unknown, every) or f"; {listed}"
    raise BadInput(f"no run of {experiment} is called {unknown!r}{near}")
