"""Notebooks as pages of the site: what `laboratory.as_markdown` makes of them, parsed as any other page."""

import json
from typing import TYPE_CHECKING, Any

from laboratory import as_markdown
from myst_parser.parsers.sphinx_ import MystParser

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx


class NotebookParser(MystParser):
    """Parses a notebook, with its stored outputs; nothing is carried out."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: "nodes.document") -> None:
        """Add the notebook's content to the document."""
        super().parse(as_markdown(json.loads(inputstring)), document)


def setup(app: "Sphinx") -> dict[str, Any]:
    """Take files that end in .ipynb as pages."""
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
