"""What can be measured of a model on any sentences: one quantity per file, called by the file's name.

`isoloss flatness` and `isoloss compare` offer every file of this folder, and a file of your own by its path.
A file defines `on_sentences(sentences, seed)`, which returns the `Quantity` with its usual settings.
"""

from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING

from isoloss.errors import BadInput

if TYPE_CHECKING:  # the commands' options list the names, and need not wait for torch
    from isoloss.measurements.quantity import AnyQuantity

EXPORTED = "on_sentences"


def quantity_names() -> tuple[str, ...]:
    """The names of all quantities, without importing them.

    >>> quantity_names()[:2]
    ('ascent_sharpness', 'critical_sharpness')
    """
    return tuple(sorted(module.name for module in iter_modules(__path__)))


def short_name(name: str) -> str:
    """The quantity's name, also if it is given by the path of its file.

    >>> short_name("fisher_trace"), short_name("my/total_variation.py")
    ('fisher_trace', 'total_variation')
    """
    return Path(name).stem if name.endswith(".py") else name


def quantity_named(name: str, sentences: int, seed: int) -> "AnyQuantity":
    """The quantity of that name, or of the Python file at that path, on `sentences` sentences.

    Raises BadInput for an unknown name, and for a file that cannot be imported or defines no quantity.
    """
    module = _module_at(Path(name)) if name.endswith(".py") else _module_named(name)
    found: AnyQuantity = getattr(module, EXPORTED)(sentences, seed)
    return found


def _module_named(name: str) -> ModuleType:
    if name not in quantity_names():
        raise BadInput(
            f"there is no quantity {name!r}; choose {', '.join(quantity_names())}, or name the Python file "
            "of your own"
        )
    return import_module(f"{__name__}.{name}")


def _module_at(path: Path) -> ModuleType:
    specification = spec_from_file_location(path.stem, path)
    if not path.is_file() or specification is None or specification.loader is None:
        raise BadInput(f"there is no file {path}; name a quantity, or the Python file of your own")
    module = module_from_spec(specification)
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        raise BadInput(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    if not hasattr(module, EXPORTED):
        raise BadInput(f"{path} defines no {EXPORTED}(sentences, seed) that returns a quantity")
    return module
