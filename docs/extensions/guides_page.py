"""The list of guides: every page of docs/ that has no place of its own, by its title.

It is written before each build; a guide that is new is there without being named.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx


WITH_A_PLACE = (
    "what-we-found",
    "limits",
    "index",
    "tutorial",
    "architecture",
    "what-is-measured",
    "flatness",
    "architectures",
    "equal-knowledge",
    "drift",
    "claims",
    "paper-scale",
)


def guides_page(folder: Path) -> str:
    """The page, for the pages that are in `folder`."""
    guides = {path.stem: path.read_text().splitlines()[0] for path in folder.glob("*.md")}
    names = sorted((name for name in guides if name not in WITH_A_PLACE), key=lambda name: guides[name])
    entries = "".join(f"   {name}\n" for name in names)
    return f"Guides\n======\n\nHow to do one thing each.\n\n.. toctree::\n   :maxdepth: 2\n\n{entries}"


def _write(app: "Sphinx") -> None:
    path, text = Path(app.srcdir) / "guides.rst", guides_page(Path(app.srcdir))
    if not path.exists() or path.read_text() != text:  # Sphinx reads again what has a newer date
        path.write_text(text)


def setup(app: "Sphinx") -> dict[str, Any]:
    """Write the page before Sphinx looks for it."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
