"""The pages of the reference, one a module, under the packages in the order in which one builds on another.

They are written into docs/reference before each build; modules that are new are there without being named.
"""

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plain_docstrings import restructured

import isoloss

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PACKAGE = Path(isoloss.__file__).parent
ORDER = (
    "languages", "inference", "corpora", "objectives", "models", "pretraining", "curvature", "measurements",
    "results", "stored_runs", "theory", "executors", "experiments", "report", "command_line",
)  # fmt: skip
OVERVIEW = "The library, package by package, each after those that it builds on."


def packages() -> list[str]:
    """The packages' names: those of `ORDER`, then any that it does not have."""
    found = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    return sorted(found, key=lambda name: (*ORDER, name).index(name))


def reference_pages() -> dict[str, str]:
    """Each page's text by its name."""
    top_level = [path for path in sorted(PACKAGE.glob("*.py")) if path.stem != "__init__"]
    rooms = packages()
    pages = {f"isoloss.{room}": _room(PACKAGE / room) for room in rooms}
    pages |= {_name(path): _module(path) for path in top_level}
    for room in rooms:
        pages |= {_name(path): _module(path) for path in _modules(PACKAGE / room)}
    below = "\n".join(f"   {room} <isoloss.{room}>" for room in rooms)
    alone = _toctree(top_level, PACKAGE)
    of_rooms = _table([PACKAGE / room / "__init__.py" for room in rooms])
    pages["index"] = (
        f"{_title('Reference')}\n{OVERVIEW}\n\n{of_rooms}\n.. toctree::\n   :hidden:\n\n{below}\n\n"
        f"{_title('What all of them use', '-')}\n{_table(top_level)}\n{alone}"
    )
    return pages


def _modules(folder: Path) -> list[Path]:
    """The package's modules, and those of the packages in it."""
    return [path for path in sorted(folder.rglob("*.py")) if path.parent != folder or path.stem != "__init__"]


def _name(path: Path) -> str:
    parts = ("isoloss", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(part for part in parts if part != "__init__")


def _summary(path: Path) -> str:
    """The first line of the module's docstring, marked up as the docstring itself will be."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return restructured(docstring.splitlines()[:1])[0] if docstring else ""


def _title(text: str, underline: str = "=") -> str:
    return f"{text}\n{underline * len(text)}\n"


def _table(paths: list[Path]) -> str:
    """Modules with what they are, a line each."""
    rows = "".join(f"   * - :doc:`{_name(path)}`\n     - {_summary(path)}\n" for path in paths)
    return f".. list-table::\n   :widths: 35 65\n\n{rows}"


def _toctree(paths: list[Path], folder: Path) -> str:
    prefix = f"{_name(folder / '__init__.py')}."
    entries = "\n".join(f"   {_name(path).removeprefix(prefix)} <{_name(path)}>" for path in paths)
    return f".. toctree::\n   :hidden:\n\n{entries}\n"


def _room(folder: Path) -> str:
    modules = _modules(folder)
    summary = _summary(folder / "__init__.py")
    return f"{_title(f'isoloss.{folder.name}')}\n{summary}\n\n{_table(modules)}\n{_toctree(modules, folder)}"


def _module(path: Path) -> str:
    return f"{_title(_name(path))}\n.. automodule:: {_name(path)}\n"


def _write(app: "Sphinx") -> None:
    folder = Path(app.srcdir) / "reference"
    folder.mkdir(exist_ok=True)
    pages = reference_pages()
    for old in folder.glob("*.rst"):
        if old.stem not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text() != text:  # Sphinx reads again what has a newer date
            path.write_text(text)


def setup(app: "Sphinx") -> dict[str, Any]:
    """Write the pages before Sphinx looks for them."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
