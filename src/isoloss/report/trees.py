"""Derivation trees as pictures."""

from markupsafe import Markup, escape

from isoloss.panels import TreeNode

LEVEL_HEIGHT, WORD_WIDTH, MARGIN = 44.0, 62.0, 24.0
"""Of a tree, in pixels."""


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
    depth = _depth(root)
    body, _, words = _drawn_node(root, 0, 0, depth)
    width = 2 * MARGIN + words * WORD_WIDTH
    height = 2 * MARGIN + depth * LEVEL_HEIGHT
    return Markup(
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="derivation tree" '
        f'xmlns="http://www.w3.org/2000/svg" style="max-width:{width:g}px;width:100%">{"".join(body)}</svg>'
    )


def _depth(node: TreeNode) -> int:
    return max([0, *(1 + _depth(child) for child in node.children)])


def _drawn_node(node: TreeNode, left: int, level: int, depth: int) -> tuple[list[str], float, int]:
    """A node with everything below it, its x, and its number of words; `left` words stand before it."""
    y = MARGIN + (level if node.children else depth) * LEVEL_HEIGHT
    below, places, words = [], [], 0
    for child in node.children:
        parts, x, of_child = _drawn_node(child, left + words, level + 1, depth)
        below.append((x, MARGIN + (level + 1 if child.children else depth) * LEVEL_HEIGHT, parts))
        places.append(x)
        words += of_child
    x = (places[0] + places[-1]) / 2 if places else MARGIN + (left + 0.5) * WORD_WIDTH
    drawn = []
    for child_x, child_y, parts in below:
        drawn.append(
            f'<line x1="{x:g}" y1="{y + 7:g}" x2="{child_x:g}" y2="{child_y - 13:g}" '
            'stroke="currentColor" stroke-width="1" opacity="0.55"/>'
        )
        drawn += parts
    style = 'font-weight="600"' if node.children else 'font-style="italic"'
    drawn.append(
        f'<text x="{x:g}" y="{y:g}" text-anchor="middle" font-size="13" fill="currentColor" '
        f"{style}>{escape(node.label)}</text>"
    )
    return drawn, x, words or 1
