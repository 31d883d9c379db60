"""The experiments, a file each: `figure_1.py` is `figure-1`, and is listed by being in this folder."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from isoloss.experiments.design import EXPORTED, Design
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.scale import Scale


@cache
def builtin_designs() -> dict[str, Design]:
    """The designs of all files, by name: the paper's figures and tables first, then the others."""
    modules = sorted((module.name for module in iter_modules(__path__)), key=_place)
    return {
        module.replace("_", "-"): getattr(import_module(f"{__name__}.{module}"), EXPORTED)
        for module in modules
    }


def _place(module: str) -> tuple[int, str, int, str]:
    kind, _, number = module.partition("_")
    if kind in ("figure", "table") and number.isdigit():
        return 0, kind, int(number), ""
    return 1, "", 0, module


def every_experiment(scale: Scale) -> tuple[Experiment, ...]:
    """All built-in experiments at a scale, in the order in which the pages show them."""
    return tuple(design.at(scale) for design in builtin_designs().values())
