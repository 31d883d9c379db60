"""What a grammar derives: rules in use, the longest sentence, and whether words are one."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from isoloss.errors import BadInput
from isoloss.languages.grammar import Grammar, Right, Rule, Symbol


def used_rules(grammar: Grammar) -> list[Rule]:
    """The rules used by some complete derivation: possible, reachable from the start, and terminating."""
    able = able_to_end(grammar)
    ending = [rule for rule in grammar.rules if rule.probability > 0 and set(symbols_in(rule.right)) <= able]
    by_left: dict[Symbol, list[Rule]] = defaultdict(list)
    for rule in ending:
        by_left[rule.left].append(rule)
    reached, pending = {grammar.start}, [grammar.start]
    while pending:
        for rule in by_left[pending.pop()]:
            new = set(symbols_in(rule.right)) - reached
            reached |= new
            pending.extend(new)
    return [rule for rule in ending if rule.left in reached]


def longest_sentence(grammar: Grammar) -> int | None:
    """The length of the longest sentence; None if there is none, because the grammar is recursive.

    Raises BadInput for a grammar without any sentence, as `check_some_sentence` does.

    >>> from isoloss.languages.notation import parse_grammar
    >>> longest_sentence(parse_grammar("S -> A A [1.0]" + chr(10) + "A -> 'a' 'b' [0.5] | 'c' [0.5]"))
    4
    """
    check_some_sentence(grammar)
    rules: dict[Symbol, list[Rule]] = defaultdict(list)
    for rule in used_rules(grammar):
        rules[rule.left].append(rule)
    parts = {symbol: set().union(*(symbols_in(rule.right) for rule in own)) for symbol, own in rules.items()}
    longest: dict[Symbol, int] = {}
    try:
        for symbol in TopologicalSorter(parts).static_order():
            longest[symbol] = max(
                sum(longest[item] if isinstance(item, Symbol) else 1 for item in rule.right)
                for rule in rules[symbol]
            )
    except CycleError:
        return None
    return longest[grammar.start]


def check_some_sentence(grammar: Grammar) -> None:
    """Refuse, with BadInput, a grammar whose start symbol can never end in words.

    >>> from isoloss.languages.notation import parse_grammar
    >>> check_some_sentence(parse_grammar("S -> 'a' S [1.0]"))
    Traceback (most recent call last):
    isoloss.errors.BadInput: the grammar: its start symbol S can never end in words; give it a rule that ends
    """
    if grammar.start not in able_to_end(grammar):
        raise BadInput(
            f"{grammar.source}: its start symbol {grammar.start.name} can never end in words; "
            "give it a rule that ends"
        )


def first_misplaced_word(grammar: Grammar, words: Sequence[str]) -> int | None:
    """The place, from 0, of the first word that no sentence has after the words before it.

    The number of words if they only begin a sentence; None if they are one. Earley's algorithm, in plain
    Python: time grows with the rules and the square of the words, with their cube in an ambiguous grammar.

    >>> from isoloss.languages.notation import parse_grammar
    >>> grammar = parse_grammar("S -> 'a' S [0.5] | 'b' [0.5]")
    >>> [first_misplaced_word(grammar, words.split()) for words in ("a b", "b a", "a a")]
    [None, 1, 2]
    """
    rules: dict[Symbol, list[Rule]] = defaultdict(list)
    for rule in used_rules(grammar):
        rules[rule.left].append(rule)
    begun = [_Begun(rule, 0, 0) for rule in rules[grammar.start]]
    waiting: list[dict[Symbol, list[_Begun]]] = []
    for place in range(len(words) + 1):
        waiting.append(defaultdict(list))
        found = _closed(begun, place, rules, waiting)
        if place == len(words):
            whole = any(
                each.start == 0 and each.rule.left == grammar.start for each in found if each.is_whole
            )
            return None if whole else place
        begun = [each.after_next() for each in found if not each.is_whole and each.next == words[place]]
        if not begun:
            return place
    raise AssertionError("every place ends the loop or leads to the next")


@dataclass(frozen=True)
class _Begun:
    """A rule of which the first `done` items span the words from place `start` to the present one."""

    rule: Rule
    done: int
    start: int

    @property
    def is_whole(self) -> bool:
        return self.done == len(self.rule.right)

    @property
    def next(self) -> Symbol | str:
        return self.rule.right[self.done]

    def after_next(self) -> "_Begun":
        return _Begun(self.rule, self.done + 1, self.start)


def _closed(
    begun: list[_Begun],
    place: int,
    rules: dict[Symbol, list[Rule]],
    waiting: list[dict[Symbol, list[_Begun]]],
) -> set[_Begun]:
    """All rules begun at a place: those of symbols that come next, and those that whole ones lead on.

    Right sides are never empty, so what waits for a whole symbol waits at an earlier place.
    """
    found, pending = set(begun), list(begun)
    while pending:
        each = pending.pop()
        if each.is_whole:
            more = [before.after_next() for before in waiting[each.start][each.rule.left]]
        elif isinstance(each.next, Symbol):
            waiting[place][each.next].append(each)
            more = [_Begun(rule, 0, place) for rule in rules[each.next]]
        else:
            more = []
        pending += [one for one in dict.fromkeys(more) if one not in found]
        found.update(more)
    return found


def able_to_end(grammar: Grammar) -> set[Symbol]:
    """The symbols from which some derivation ends in words."""
    able: set[Symbol] = set()
    rules = [(rule.left, set(symbols_in(rule.right))) for rule in grammar.rules if rule.probability > 0]
    while True:
        new = {left for left, children in rules if children <= able} - able
        if not new:
            return able
        able |= new


def symbols_in(right: Right) -> list[Symbol]:
    """The symbols of a right side, left to right."""
    return [item for item in right if isinstance(item, Symbol)]
