"""What experiments are called, from their files and without importing any."""

from collections.abc import Sequence
from pathlib import Path
from pkgutil import iter_modules

from isoloss.errors import BadInput, did_you_mean

SUITE = f"{__package__}.suite"
"""The package of the built-in experiments, a file each."""

GROUPS = ("paper", "all")
"""Groups of experiments requested by one name: those of the paper, and all that are built in."""

_SUITE_FOLDER = Path(__file__).with_name("suite")


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


def refuse_a_language(names: Sequence[str]) -> None:
    """Raise BadInput if a built-in experiment or a group is named whose language cannot be replaced.

    >>> refuse_a_language(["figure-1", "./mine.py"])
    """
    known = names_with_a_language()
    if not all(name in known or name.endswith(".py") for name in names):
        raise language_refused()


def language_refused() -> BadInput:
    """Says which experiments' language and task may be replaced."""
    *others, last = names_with_a_language()
    return BadInput(f"--language and --task go with {', '.join(others)} and {last}; name no others")


def _place(module: str) -> tuple[int, str, int, str]:
    kind, _, number = module.partition("_")
    if kind in ("figure", "table") and number.isdigit():
        return 0, kind, int(number), ""
    return 1, "", 0, module
