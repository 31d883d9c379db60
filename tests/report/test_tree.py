from dataclasses import dataclass
from xml.etree import ElementTree

from isoloss.report.tree import tree_picture


@dataclass(frozen=True)
class Node:
    label: str
    children: tuple["Node", ...] = ()


def test_words_stand_on_one_line_in_order_and_symbols_above_them() -> None:
    tree = Node("S", (Node("A", (Node("the"), Node("<b>"))), Node("B", (Node("dog"),))))
    picture = ElementTree.fromstring(tree_picture(tree))
    placed = {t.text: (float(t.attrib["x"]), float(t.attrib["y"])) for t in picture if t.tag.endswith("text")}
    assert placed["the"][1] == placed["<b>"][1] == placed["dog"][1] > placed["A"][1] > placed["S"][1]
    assert placed["the"][0] < placed["<b>"][0] < placed["dog"][0]
    assert sum(part.tag.endswith("line") for part in picture) == 5
