"""Why a typed sentence is outside a language, found out without torch."""

from collections.abc import Sequence
from typing import Any

from isoloss.errors import BadInput
from isoloss.languages.bracket_strings import refuse_unbalanced
from isoloss.languages.derivations import first_misplaced_word, longest_sentence
from isoloss.languages.grammar import Grammar
from isoloss.languages.words import word_numbers

MOST_STEPS = 20_000
"""Rules times the square of words up to which a sentence is looked for in a grammar, which takes a moment."""

BRACKETS = ("<", ">")


def refuse_underivable(text: str, grammar: Grammar, maximum_length: int | None = None) -> None:
    """Raise BadInput for unknown words, for too many, and, of a grammar that is not large, for no sentence.

    >>> from isoloss.languages.notation import parse_grammar
    >>> refuse_underivable("b a", parse_grammar("S -> 'a' S [0.5] | 'b' [0.5]"))
    Traceback (most recent call last):
    isoloss.errors.BadInput: ... the grammar does not derive the sentence: none has 'a' after 'b'; ...
    """
    word_numbers(text, grammar.words)
    words = text.split()
    lengths = [each for each in (maximum_length, longest_sentence(grammar)) if each]
    if lengths and len(words) > min(lengths):
        raise too_long(len(words), min(lengths))
    if len(grammar.rules) * len(words) ** 2 > MOST_STEPS:
        return
    place = first_misplaced_word(grammar, words)
    if place is not None:
        raise underivable(words, place)


def _are_different_words(words: list[Any]) -> bool:
    return all(isinstance(word, str) for word in words) and len(set(words)) == len(words)


def refuse_outside_file(text: str, content: Any) -> None:
    """The same of the JSON of an HMM or a Dyck language; what is neither is left to its parser.

    >>> refuse_outside_file("< < <", {"dyck": {"length": 4}})
    Traceback (most recent call last):
    isoloss.errors.BadInput: the sentence has 3 words, all of the language's 4; give as many
    >>> refuse_outside_file("< > < > < > <", {"dyck": {"length": 7}})
    Traceback (most recent call last):
    isoloss.errors.BadInput: no string of 7 brackets is balanced; give an even length of at least 2
    """
    match content:
        case {"dyck": {"length": int(length), **others}} if not isinstance(length, bool):
            share = others.get("balanced_share", 1)
            if isinstance(share, int | float):
                refuse_unbalanced(length, share)
            word_numbers(text, BRACKETS)
            refuse_other_length(len(text.split()), length)
            if share == 1 and text.count("<") != text.count(">"):
                raise unbalanced()
        case {"words": [*words], "length": int(length)} if length > 0 and _are_different_words(words):
            word_numbers(text, words)
            refuse_other_length(len(text.split()), length)


def refuse_other_length(words: int, length: int) -> None:
    """Raise BadInput for another number of words than all sentences of the language have."""
    if words != length:
        raise BadInput(f"the sentence has {words} words, all of the language's {length}; give as many")


def unbalanced() -> BadInput:
    """Says what is wrong with brackets of which one kind is more frequent."""
    return BadInput("the sentence has not as many < as >; give half of each")


def too_long(words: int, longest: int) -> BadInput:
    """Says that no sentence of a grammar is so long."""
    return BadInput(f"the sentence has {words} words, the longest of the language {longest}; shorten it")


def underivable(words: Sequence[str], place: int | None = None) -> BadInput:
    """Says that a grammar does not derive known words, and where its sentences leave them, if that is known.

    >>> print(underivable(["the", "cat"], 2))
    every word is known, but the grammar does not derive the sentence: none ends after 'the cat'; ...
    """
    why = ""
    if place is not None:
        before = " ".join(words[:place])
        if place == len(words):
            why = f": none ends after {before!r}"
        else:
            why = (
                f": none has {words[place]!r} after {before!r}"
                if place
                else f": none begins with {words[0]!r}"
            )
    return BadInput(
        f"every word is known, but the grammar does not derive the sentence{why}; check the words' order"
    )
