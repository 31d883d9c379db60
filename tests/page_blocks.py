"""The pages of the documentation, and the blocks of code in them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

_FENCED = re.compile(r"^```(\S*) ?([^\n]*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file to which it is to be saved (empty: none), and its text.

    `line` is the line of the page on which the text starts.
    """

    page: Path
    line: int
    language: str
    file: str
    text: str

    @property
    def place(self) -> str:
        """Its location, in the format of tracebacks."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The page's blocks in order."""
    text = page.read_text()
    return [
        Block(page, text.count("\n", 0, found.start(3)) + 1, *found.groups())
        for found in _FENCED.finditer(text)
    ]


def commands(block: Block) -> list[str]:
    """The lines of a block of commands, with continued lines joined."""
    return [line for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]


def prose(page: Path) -> str:
    """The page without its blocks."""
    return _FENCED.sub("", page.read_text())


def links(page: Path) -> list[str]:
    """The links of the page within the project."""
    found = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return [link for link in found if not re.match(r"\w+:", link)]
