"""Derivation trees as pictures."""

import re
from dataclasses import dataclass
from itertools import combinations
from xml.etree import ElementTree

import polars as pl

from isoloss.panels import Tree
from isoloss.report.charts import draw


@dataclass(frozen=True)
class Node:
    label: str
    children: tuple["Node", ...] = ()


def test_a_tree_of_any_depth_is_drawn() -> None:
    tree = Node("b")
    for _ in range(3000):
        tree = Node("S", (Node("a"), tree))
    picture = str(draw(Tree(tree), pl.DataFrame(), "a"))
    assert picture.count("<path") == 6000
    assert picture.count("<text") == 6001


def test_words_stand_on_one_line_in_order_and_symbols_above_them() -> None:
    tree = Node("S", (Node("A", (Node("the"), Node("<b>"))), Node("B", (Node("dog"),))))
    picture = ElementTree.fromstring(str(draw(Tree(tree), pl.DataFrame(), "a")))
    placed = {t.text: (float(t.attrib["x"]), float(t.attrib["y"])) for t in picture if t.tag.endswith("text")}
    assert placed["the"][1] == placed["<b>"][1] == placed["dog"][1] > placed["A"][1] > placed["S"][1]
    assert placed["the"][0] < placed["<b>"][0] < placed["dog"][0]
    assert sum(part.tag.endswith("path") for part in picture) == 5


def test_edges_of_a_tree_do_not_cross() -> None:
    inner = Node("S", (Node("("), Node("S", (Node("("), Node("a"), Node(")"))), Node(")")))
    tree = Tree(Node("S", (Node("("), inner, Node(")"))))
    picture = ElementTree.fromstring(str(draw(tree, pl.DataFrame(), "a")))
    edges = []
    for part in picture:
        if part.tag.endswith("path"):
            start, end = re.fullmatch(r"M(\S+ \S+) L(\S+ \S+?)(?: V\S+)?", part.attrib["d"]).groups()
            edges.append((*map(float, start.split()), *map(float, end.split())))
            if down := re.search(r" V(\S+)", part.attrib["d"]):
                edges.append((edges[-1][2], edges[-1][3], edges[-1][2], float(down[1])))

    def side(edge: tuple[float, ...], x: float, y: float) -> float:
        return (edge[2] - edge[0]) * (y - edge[1]) - (edge[3] - edge[1]) * (x - edge[0])

    for one, other in combinations(edges, 2):
        apart = [side(one, *other[:2]) * side(one, *other[2:]), side(other, *one[:2]) * side(other, *one[2:])]
        assert max(apart) >= 0
