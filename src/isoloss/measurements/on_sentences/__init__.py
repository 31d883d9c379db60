"""What can be measured of a model on any sentences, as `isoloss flatness` and `isoloss compare` offer it.

A file defines `on_sentences(sentences, seed)`, which returns the `Quantity` with its usual settings. If it
also takes a `value`, that is what follows = in `NAME=VALUE`. The quantity is called by the file's name; where
a file of this folder has several, each by what stands before `_on_sentences`. One's own are named by a path.
"""

import inspect
import re
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING

from isoloss.errors import BadInput, did_you_mean

if TYPE_CHECKING:  # the commands' options list the names, and need not wait for torch
    from isoloss.measurements.quantity import Quantity

EXPORTED = "on_sentences"
ONE = re.compile(rf"^(?:def )?{EXPORTED}\b|\bas {EXPORTED}\b", re.MULTILINE)
SEVERAL = re.compile(rf"^(?:def )?(\w+_{EXPORTED})\b", re.MULTILINE)


def _offered() -> list[tuple[str, str, str]]:
    """What each quantity is called, the module of this folder that has it, and the name that it has there."""
    return [each for folder in __path__ for each in _offered_in(folder, Path(folder).stat().st_mtime_ns)]


@cache
def _offered_in(folder: str, _changed: int) -> list[tuple[str, str, str]]:
    offered = []
    for module in iter_modules([folder]):
        file = Path(folder, f"{module.name}.py")
        text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
        several = [] if ONE.search(text) else SEVERAL.findall(text)
        place = f"{__name__}.{module.name}"
        offered += [(made.removesuffix(f"_{EXPORTED}"), place, made) for made in several]
        offered += [] if several else [(module.name, place, EXPORTED)]
    return offered


def quantity_names() -> tuple[str, ...]:
    """The names of all quantities, without importing them.

    >>> quantity_names()[:2]
    ('ascent_sharpness', 'batch_sharpness')
    """
    return tuple(sorted({name for name, *_ in _offered()}))


def name_and_value(name: str) -> tuple[str, str | None]:
    """A quantity's name or file, and what is said of it after =, if anything.

    >>> name_and_value("batch_sharpness=32"), name_and_value("my=own/file.py"), name_and_value("my.py=a=b")
    (('batch_sharpness', '32'), ('my=own/file.py', None), ('my.py', 'a=b'))
    """
    parted = re.fullmatch(r"(\w+|.*?\.py)=(.*)", name, re.DOTALL)
    if parted is None or (name.endswith(".py") and not parted[1].endswith(".py")):
        return name, None
    return parted[1], parted[2]


def short_name(name: str) -> str:
    """The quantity's name, also if it is given by the path of its file, with what is said of it after =.

    >>> short_name("fisher_trace"), short_name("my/total_variation.py"), short_name("batch_sharpness=32")
    ('fisher_trace', 'total_variation', 'batch_sharpness=32')
    """
    called, value = name_and_value(name)
    called = Path(called).stem if called.endswith(".py") else called
    return called if value is None else f"{called}={value}"


def refuse_unknown_quantities(names: Iterable[str]) -> None:
    """Raise BadInput for a name that no quantity has, without importing any, unless a Python file has it.

    What follows = in a name is not looked at. Nor may two files have one name, by which results are kept.
    """
    known = quantity_names()
    files: dict[str, str] = {}
    for each in names:
        if (other := files.setdefault(short_name(each), each)) != each:
            raise BadInput(
                f"{other} and {each} are both called {short_name(each)}; name one of them, or rename a file"
            )
        name, _ = name_and_value(each)
        if name.endswith(".py"):
            if not Path(name).is_file():
                raise BadInput(f"there is no file {name}; name a quantity, or the Python file of your own")
        elif name not in known:
            near = did_you_mean(name, known)
            choices = f"; choose {', '.join(known)}, or name the Python file of your own"
            raise BadInput(f"there is no quantity {name!r}{near or choices}")


def quantity_named(name: str, sentences: int, seed: int) -> "Quantity":
    """The quantity of that name, or of the Python file at that path, on `sentences` sentences.

    The name may end with =VALUE, of a quantity that takes one. Raises BadInput for an unknown name, for a
    file that cannot be imported or defines no quantity, and for a value that the quantity does not take.
    """
    refuse_unknown_quantities([name])
    called, value = name_and_value(name)
    if called.endswith(".py"):
        make = getattr(_module_at(Path(called)), EXPORTED)
    else:
        places = [(module, made) for name, module, made in _offered() if name == called]
        if len(places) > 1:
            both = " and ".join(module.rpartition(".")[2] for module, _ in places)
            raise BadInput(f"two quantities are called {called}, in {both}.py; rename one of them")
        module, made = places[0]
        make = getattr(import_module(module), made)
    found: Quantity
    if value is None:
        found = make(sentences, seed)
    elif "value" not in inspect.signature(make).parameters:
        raise BadInput(f"{called} takes nothing after =; leave ={value} out")
    else:
        found = make(sentences, seed, value=value)
    return found


def whole_number(value: str | None, otherwise: int, what: str) -> int:
    """The `value` after = as a number of at least 1, or what there is `otherwise`. Raises BadInput.

    >>> whole_number("32", 8, "sentences a batch"), whole_number(None, 8, "sentences a batch")
    (32, 8)
    """
    if value is None:
        return otherwise
    if re.fullmatch(r"0*[1-9][0-9]{0,8}", value) is None:
        raise BadInput(f"={value} is no number of {what}; give a whole number of at least 1")
    return int(value)


def _module_at(path: Path) -> ModuleType:
    specification = spec_from_file_location(path.stem, path)
    assert specification is not None, "a path that ends in .py has one"
    assert specification.loader is not None
    module = module_from_spec(specification)
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        raise BadInput(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    if not hasattr(module, EXPORTED):
        raise BadInput(f"{path} defines no {EXPORTED}(sentences, seed) that returns a quantity")
    return module
