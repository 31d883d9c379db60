"""Derivation trees, in the symbols of the grammar as written."""

from dataclasses import dataclass

from isoloss.languages.grammar import Grammar, Symbol
from isoloss.languages.sampling import Derivations


@dataclass(frozen=True)
class Derivation:
    """A node of a derivation tree: a symbol with its parts, or a word with none."""

    label: str
    children: "tuple[Derivation, ...]" = ()

    def __str__(self) -> str:
        """Bracketed text.

        >>> str(Derivation("S", (Derivation("A", (Derivation("a"),)), Derivation("b"))))
        '(S (A a) b)'
        """
        pieces: list[str] = []
        pending: list[Derivation | str] = [self]
        while pending:
            node = pending.pop()
            if isinstance(node, str) or not node.children:
                pieces.append(node if isinstance(node, str) else f" {node.label}")
                continue
            pieces.append(f" ({node.label}")
            pending.extend([")", *reversed(node.children)])
        return "".join(pieces).strip()

    @property
    def words(self) -> tuple[str, ...]:
        """The words below the node, left to right."""
        found: list[str] = []
        pending = [self]
        while pending:
            node = pending.pop()
            if not node.children:
                found.append(node.label)
            pending.extend(reversed(node.children))
        return tuple(found)


def derivation_trees(grammar: Grammar, derivations: Derivations) -> list[Derivation]:
    """Draw `derivations` and build their trees; `grammar` is the grammar they are drawn from."""
    chosen: list[list[int]] = [[] for _ in derivations.keys]
    for step in derivations:
        for row, rule in zip(step.rows.tolist(), step.rules.tolist(), strict=True):
            if rule < len(grammar.rules):
                chosen[row].append(rule)
        for row in step.rows[step.restarted].tolist():
            chosen[row].clear()
    words = derivations.word_rules().T.tolist()
    return [_tree(grammar, rules, of_words) for rules, of_words in zip(chosen, words, strict=True)]


def _tree(grammar: Grammar, rules: list[int], word_rules: list[int]) -> Derivation:
    """Build a tree from its rules, leftmost first; rules for single words are indexed by position.

    An open node is a pair of its label and the children found so far.
    """
    structure = iter(rules)
    place = 0
    root: tuple[str, list[Derivation]] = ("", [])
    open_parts = [root]
    pending: list[Symbol | str | None] = [grammar.start]
    while pending:
        item = pending.pop()
        if item is None:
            label, children = open_parts.pop()
            open_parts[-1][1].append(Derivation(label, tuple(children)))
        elif isinstance(item, str):
            open_parts[-1][1].append(Derivation(item))
            place += 1
        else:
            alone = place < len(word_rules) and word_rules[place] < len(grammar.rules)
            by_word = alone and grammar.rules[word_rules[place]].left == item
            right = grammar.rules[word_rules[place] if by_word else next(structure)].right
            open_parts.append((item.name, []))
            pending.extend([None, *reversed(right)])
    return root[1][0]
