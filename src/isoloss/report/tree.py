"""A derivation tree as an SVG picture (Figure 6): words on the baseline, symbols above them."""

from dataclasses import dataclass

from markupsafe import Markup, escape

from isoloss.panels import TreeNode

LEVEL_HEIGHT = 44.0
WORD_WIDTH = 62.0
MARGIN = 24.0


@dataclass(frozen=True)
class _Placed:
    label: str
    x: float
    level: int
    is_word: bool
    children: tuple["_Placed", ...]


def tree_picture(root: TreeNode) -> Markup:
    """Return an SVG element that draws the tree, scalable and readable in black and white.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Leaf:
    ...     label: str
    ...     children: tuple = ()
    >>> tree_picture(Leaf("S", (Leaf("a"), Leaf("b")))).count("<line")
    2
    """
    placed, words = _place(root, 0, 0)
    depth = _depth(placed)
    width = 2 * MARGIN + words * WORD_WIDTH
    height = 2 * MARGIN + depth * LEVEL_HEIGHT
    body = "".join(_draw(placed, depth))
    return Markup(
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="derivation tree" '
        f'xmlns="http://www.w3.org/2000/svg" style="max-width:{width:g}px;width:100%">{body}</svg>'
    )


def _place(node: TreeNode, left: int, level: int) -> tuple[_Placed, int]:
    if not node.children:
        x = MARGIN + (left + 0.5) * WORD_WIDTH
        return _Placed(node.label, x, level, True, ()), 1
    placed, used = [], 0
    for child in node.children:
        part, width = _place(child, left + used, level + 1)
        placed.append(part)
        used += width
    x = (placed[0].x + placed[-1].x) / 2
    return _Placed(node.label, x, level, False, tuple(placed)), used


def _depth(node: _Placed) -> int:
    return max([node.level] + [_depth(child) for child in node.children])


def _height(node: _Placed, depth: int) -> float:
    return MARGIN + (depth if node.is_word else node.level) * LEVEL_HEIGHT


def _draw(node: _Placed, depth: int) -> list[str]:
    y = _height(node, depth)
    parts = []
    for child in node.children:
        parts.append(
            f'<line x1="{node.x:g}" y1="{y + 7:g}" x2="{child.x:g}" y2="{_height(child, depth) - 13:g}" '
            'stroke="currentColor" stroke-width="1" opacity="0.55"/>'
        )
        parts += _draw(child, depth)
    style = 'font-style="italic"' if node.is_word else 'font-weight="600"'
    parts.append(
        f'<text x="{node.x:g}" y="{y:g}" text-anchor="middle" font-size="13" fill="currentColor" '
        f"{style}>{escape(node.label)}</text>"
    )
    return parts
