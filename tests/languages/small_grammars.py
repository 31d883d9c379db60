"""Small grammars that together cover all features of a grammar."""

from isoloss.languages.grammar import Grammar
from isoloss.languages.notation import parse_grammar
from isoloss.languages.random_grammar import random_layered_grammar

MIXED = """
S -> NP VP [0.5] | T [0.3] | NP 'and' NP VP [0.1] | 'stop' [0.1]   # ternary and longer, words inside
T -> U [0.6] | NP NP NP [0.4]                                       # unary chains S -> T -> U
U -> 'the' N [0.7] | VP [0.3]
NP -> 'the' N [0.5] | N [0.25] | 'stop' [0.25]                      # shared words
N -> 'dog' [0.5] | 'cat' [0.25] | A N2 [0.25]
A -> 'big' [0.9] | 'the' [0.1]
N2 -> 'dog' [0.4] | 'big' [0.6]
VP -> 'runs' [0.5] | 'sees' NP [0.5]
"""

AMBIGUOUS = """
S -> S S [0.4] | 'a' [0.35] | X [0.25]
X -> 'b' [0.5] | S 'c' S [0.5]
"""

SUPERCRITICAL = "S -> S S [0.7] | 'a' [0.2] | 'b' [0.1]"

SUBCRITICAL = """
S -> S 'x' [0.03] | 'y' S [0.03] | A [0.5] | 'x' [0.44]
A -> 'x' [0.3] | 'z' [0.3] | 'y' 'z' [0.4]
"""

ROUNDED = """
S -> A B [0.6002] | B [0.3995]
A -> 'a' [0.5004] | 'b' [0.5]
B -> A A [0.4] | 'b' [0.5992]
"""


def grammar(text: str) -> Grammar:
    return parse_grammar(text)


def layered(seed: int = 0) -> Grammar:
    return random_layered_grammar(
        words=3,
        symbols_per_level=2,
        levels=2,
        rules_per_symbol=2,
        roots=2,
        words_per_preterminal=2,
        seed=seed,
    )


CASES: dict[str, tuple[Grammar, int | None, int]] = {
    # name: grammar, maximum length, words up to which enumeration is complete
    "mixed": (grammar(MIXED), None, 11),
    "mixed, cut": (grammar(MIXED), 4, 4),
    "ambiguous, cut": (grammar(AMBIGUOUS), 6, 6),
    "supercritical, cut": (grammar(SUPERCRITICAL), 6, 6),
    "subcritical, whole": (grammar(SUBCRITICAL), None, 12),
    "subcritical, cut": (grammar(SUBCRITICAL), 3, 3),
    "rounded": (grammar(ROUNDED), None, 3),
    "rounded, cut": (grammar(ROUNDED), 2, 2),
    "layered": (layered(), None, 4),
    "one word": (grammar("S -> 'a' [1]"), None, 1),
}
