"""Whether a language may have a task of a name, read from its file without torch."""

import re
from collections import defaultdict
from collections.abc import Sequence
from graphlib import TopologicalSorter
from typing import Any

from isoloss.errors import BadInput
from isoloss.languages.derivations import longest_sentence, symbols_in, used_rules
from isoloss.languages.grammar import Grammar, Right, Symbol

OF_A_PREFIX = re.compile(r"prefix-(?P<words>[1-9]\d{0,5})(-likelihood)?(-of-all)?")
OF_THE_ROOT = re.compile(r"root(-of-all)?")
MOST_WORDS = 100
"""Longest sentence of a grammar whose prefixes are looked for; of longer ones any number of words passes."""

MOST_LISTED = 6


def refuse_unknown_task(name: str, written: Grammar | Any) -> None:
    """Raise BadInput for a name that no task of a grammar, or of a language's JSON, can have.

    >>> refuse_unknown_task("state-9", {"words": ["a", "b"], "length": 2})
    Traceback (most recent call last):
    isoloss.errors.BadInput: the language has no task 'state-9'; choose state-1, state-2
    """
    match written:
        case Grammar():
            lengths = prefix_lengths(written)
            if lengths is not None or not OF_A_PREFIX.fullmatch(name):
                refuse_unknown_prefix(name, lengths or ())
        case {"causal_language_model": _}:
            _refuse_other(name, ("opening-2", "opening-4"))
        case {"words": _, "length": int(length)}:
            _refuse_other(name, [f"state-{place}" for place in range(1, length + 1)])


def refuse_unknown_prefix(name: str, lengths: Sequence[int]) -> None:
    """Raise BadInput unless the name is that of the root, or a prefix of one of these numbers of words."""
    written = OF_A_PREFIX.fullmatch(name)
    if not OF_THE_ROOT.fullmatch(name) and not (written and int(written["words"]) in lengths):
        some = lengths if len(lengths) <= MOST_LISTED else ()
        raise no_task_of_a_grammar(name, [f"prefix-{length}" for length in some])


def no_task_of_a_grammar(name: str, known: Sequence[str]) -> BadInput:
    """Says which tasks a grammar has."""
    listed = "".join(f"{each}, or " for each in [", ".join(known)] if each)
    return BadInput(
        f"the language has no task {name!r}; choose {listed}prefix-L or prefix-L-likelihood for a number of "
        "words L that a symbol spans; -of-all after any makes every symbol a class"
    )


def prefix_lengths(grammar: Grammar) -> tuple[int, ...] | None:
    """How many words, from the first on, one symbol can span, most first; None if there may be too many.

    >>> from isoloss.languages.notation import parse_grammar
    >>> prefix_lengths(parse_grammar(chr(10).join(["S -> A 'c' [1.0]", "A -> 'a' 'b' [1.0]"])))
    (3, 2)
    """
    if (longest_sentence(grammar) or MOST_WORDS + 1) > MOST_WORDS:
        return None
    rights: dict[Symbol, list[Right]] = defaultdict(list)
    for rule in used_rules(grammar):
        rights[rule.left].append(rule.right)
    below = {left: set().union(*map(symbols_in, own)) for left, own in rights.items()}
    spans: dict[Symbol, set[int]] = {}
    for symbol in TopologicalSorter(below).static_order():
        spans[symbol] = set().union(*(_lengths(right, spans) for right in rights[symbol]))
    leading, pending = {grammar.start}, [grammar.start]
    while pending:
        first = {right[0] for right in rights[pending.pop()] if isinstance(right[0], Symbol)} - leading
        leading |= first
        pending += first
    lengths = set().union(*(spans[symbol] for symbol in leading))
    return tuple(sorted((length for length in lengths if length > 1), reverse=True))


def _lengths(right: Right, spans: dict[Symbol, set[int]]) -> set[int]:
    """How many words a right side can have."""
    sums = {0}
    for item in right:
        parts = spans[item] if isinstance(item, Symbol) else {1}
        sums = {before + part for before in sums for part in parts}
    return sums


def _refuse_other(name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise BadInput(f"the language has no task {name!r}; choose {', '.join(known)}")
