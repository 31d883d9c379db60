"""What experiments and their runs are called, from files and without importing any experiment."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from pkgutil import iter_modules

from isoloss.errors import BadInput, did_you_mean

SUITE = f"{__package__}.suite"
"""The package of the built-in experiments, a file each."""

GROUPS = ("paper", "all")
"""Groups of experiments requested by one name: those of the paper, and all that are built in."""

_SUITE_FOLDER = Path(__file__).with_name("suite")
RUN_NAMES = Path(__file__).parents[1] / "reference" / "run_names.json"
"""For each scale and experiment, what its runs are called before their seeds, and ranges of the seeds. A test
compares the file with the plans, and `tests/experiments/frozen_plans.py` writes it anew."""


def experiment_names() -> tuple[str, ...]:
    """The names of all files, without importing them: the paper's figures and tables first, then the others.

    >>> experiment_names()[:2]
    ('figure-1', 'figure-2')
    """
    modules = sorted((module.name for module in iter_modules([str(_SUITE_FOLDER)])), key=_place)
    return tuple(module.replace("_", "-") for module in modules)


def refuse_unknown(names: Sequence[str]) -> None:
    """Raise BadInput unless each is the name of an experiment or of a group, or a Python file.

    No experiment is imported: a command that is given a wrong name need not wait for torch to say so.
    """
    known = experiment_names()
    choices = f"choose {' or '.join(GROUPS)}, among {', '.join(known)}, or name a Python file of your own"
    if not names:
        raise BadInput(f"name what to reproduce: {choices}")
    for name in names:
        if name.endswith(".py"):
            if not Path(name).is_file():
                path = Path(name).resolve()
                raise BadInput(f"there is no file {path}; name an experiment, or a Python file of your own")
        elif name not in GROUPS and name not in known:
            near = did_you_mean(name, (*GROUPS, *known)) or f"; {choices}"
            raise BadInput(f"there is no experiment {name!r}{near}")


def names_with_a_language() -> tuple[str, ...]:
    """The experiments whose language and task may be replaced, as their files say, which are not imported.

    >>> names_with_a_language()[:2]
    ('figure-1', 'adamw-clock')
    """
    files = {name: _SUITE_FOLDER / f"{name.replace('-', '_')}.py" for name in experiment_names()}
    return tuple(name for name, file in files.items() if "takes_a_language=True" in file.read_text("utf-8"))


def refuse_unseeded_runs(experiment: str, runs: Sequence[str]) -> None:
    """Raise BadInput for what cannot be a run of a built-in experiment: the names of all of them have a seed.

    >>> refuse_unseeded_runs("figure-1", ["width-32-seed-1"])
    """
    for run in runs:
        if not re.search(r"\bseed-\d", run):
            raise BadInput(
                f"no run of {experiment} is called {run!r}: all names have a seed, such as width-32-seed-1; "
                f"`isoloss runs` lists those of a folder of results"
            )


def run_names(experiment: str, scale: str) -> list[str]:
    """The names of a built-in experiment's runs at a scale, on the scale's language.

    >>> run_names("figure-1", "smoke")
    ['width-16-seed-1', 'width-16-seed-2', 'width-32-seed-1', 'width-32-seed-2']
    """
    seeds: dict[str, str] = json.loads(RUN_NAMES.read_text("utf-8"))[scale].get(experiment, {})
    return [
        f"{name}{seed}"
        for name, ranges in seeds.items()
        for first, last in _ends(ranges)
        for seed in range(first, last + 1)
    ]


def _ends(ranges: str) -> Iterator[tuple[int, int]]:
    for each in ranges.split(", "):
        first, _, last = each.partition("-")
        yield int(first), int(last or first)


def refuse_absent_runs(experiment: str, scale: str, runs: Sequence[str]) -> None:
    """Raise BadInput for a run that a built-in experiment does not have at a scale, on its own language.

    >>> refuse_absent_runs("figure-1", "smoke", ["width-32-seed-1"])
    """
    every = run_names(experiment, scale)
    for run in runs:
        if run not in every:
            raise no_such_run(experiment, run, every)


def no_such_run(experiment: str, run: str, every: Sequence[str]) -> BadInput:
    """Says what an experiment's runs are called, or the name that was probably meant."""
    listed = f"its {len(every)} runs are {every[0]} to {every[-1]}" if every else "it has none"
    near = did_you_mean(run, every) or f"; {listed}"
    return BadInput(f"no run of {experiment} is called {run!r}{near}")


def refuse_a_language(names: Sequence[str]) -> None:
    """Raise BadInput if a built-in experiment or a group is named whose language cannot be replaced.

    >>> refuse_a_language(["figure-1", "./mine.py"])
    """
    known = names_with_a_language()
    if not all(name in known or name.endswith(".py") for name in names):
        raise language_refused()


def prefixes_of_scale(scale: str) -> tuple[int, ...]:
    """How many words, from the first on, a symbol spans in the grammar on which a scale trains.

    >>> prefixes_of_scale("night"), prefixes_of_scale("paper")[:3]
    ((8, 4, 2), (32, 31, 30))
    """
    return tuple(range(32, 1, -1)) if scale in ("gpu", "paper") else (8, 4, 2)


def language_refused() -> BadInput:
    """Says which experiments' language and task may be replaced."""
    *others, last = names_with_a_language()
    return BadInput(f"--language and --task go with {', '.join(others)} and {last}; name no others")


def _place(module: str) -> tuple[int, str, int, str]:
    kind, _, number = module.partition("_")
    if kind in ("figure", "table") and number.isdigit():
        return 0, kind, int(number), ""
    return 1, "", 0, module
