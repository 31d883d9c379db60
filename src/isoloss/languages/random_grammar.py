"""Random layered grammars of the same kind as the paper's pre-training language (Section A.1)."""

import numpy as np

from isoloss.errors import BadInput
from isoloss.languages.grammar import Grammar, Right, Rule, Symbol


def random_layered_grammar(
    *,
    words: int,
    symbols_per_level: int,
    levels: int,
    rules_per_symbol: int,
    roots: int,
    words_per_preterminal: int,
    seed: int,
) -> Grammar:
    """A grammar of binary levels above words, whose sentences all have 2^`levels` words.

    S rewrites to one of `roots` symbols; below them, `levels` levels of `symbols_per_level` symbols, each
    symbol's rules leading to two symbols of the next level, the last level's to one word each. A symbol's
    right sides are distinct and drawn at random so that every lower symbol and every word is used;
    its probabilities are uniform over all distributions (Dirichlet with parameter 1). Raises BadInput where
    the numbers do not allow it.

    >>> grammar = laptop_grammar(0)
    >>> len(grammar.words), len(grammar.symbols), len(grammar.rules)
    (8, 9, 26)
    """
    counts = (words, symbols_per_level, levels, rules_per_symbol, roots, words_per_preterminal)
    if min(counts) < 1:
        raise BadInput(f"a layered grammar needs at least one of everything, not {min(counts)}")
    generator = np.random.default_rng(seed)
    names = [[f"R{n}" for n in range(1, roots + 1)]]
    names += [[f"L{level}_{n}" for n in range(1, symbols_per_level + 1)] for level in range(1, levels + 1)]
    rules = [
        Rule(Symbol("S"), (Symbol(n),), p)
        for n, p in zip(names[0], _distribution(roots, generator), strict=True)
    ]
    for level, upper in enumerate(names):
        if level < levels:
            right_sides = _pairs(len(upper), symbols_per_level, rules_per_symbol, generator)
            lower = [Symbol(name) for name in names[level + 1]]
            sides: list[list[Right]] = [[(lower[a], lower[b]) for a, b in own] for own in right_sides]
        else:
            chosen = _words(len(upper), words, words_per_preterminal, generator)
            sides = [[(f"w{word + 1}",) for word in own] for own in chosen]
        for name, own in zip(upper, sides, strict=True):
            distribution = _distribution(len(own), generator)
            rules += [Rule(Symbol(name), side, p) for side, p in zip(own, distribution, strict=True)]
    return Grammar(Symbol("S"), tuple(rules), f"random layered grammar {seed}")


def laptop_grammar(seed: int) -> Grammar:
    """A small language for laptops: 8 words, 2 roots, 3 levels of 2 symbols, sentences of 8 words."""
    return random_layered_grammar(
        words=8,
        symbols_per_level=2,
        levels=3,
        rules_per_symbol=2,
        roots=2,
        words_per_preterminal=6,
        seed=seed,
    )


def _distribution(size: int, generator: np.random.Generator) -> list[float]:
    return [float(probability) for probability in generator.dirichlet(np.ones(size))]


def _pairs(upper: int, lower: int, rules: int, generator: np.random.Generator) -> list[list[tuple[int, int]]]:
    """For each of `upper` symbols, `rules` distinct pairs of `lower` symbols, all of which are used."""
    if rules > lower**2 or 2 * rules * upper < lower:
        raise BadInput(
            f"{upper} symbols with {rules} rules each cannot have distinct right sides and use all {lower} "
            "symbols of the next level; change the rules a symbol or the symbols a level"
        )
    numbers = [generator.choice(lower**2, rules, replace=False) for _ in range(upper)]
    sides = np.array([np.stack(np.divmod(own, lower), 1) for own in numbers])
    while len(unused := np.setdiff1d(np.arange(lower), sides)):
        place = tuple(generator.integers(sides.shape))
        changed = sides[place[0]].copy()
        changed[place[1:]] = unused[0]
        spare = np.count_nonzero(sides == sides[place]) > 1
        if spare and len(np.unique(changed, axis=0)) == rules:
            sides[place[0]] = changed
    return [[(int(a), int(b)) for a, b in own] for own in sides]


def _words(symbols: int, words: int, each: int, generator: np.random.Generator) -> list[list[int]]:
    """For each symbol, `each` distinct words, such that every word is used."""
    if each > words or each * symbols < words:
        raise BadInput(
            f"{symbols} symbols with {each} distinct words each cannot use all of {words} words; "
            "change the words or the words a symbol"
        )
    chosen = np.array([generator.choice(words, each, replace=False) for _ in range(symbols)])
    while len(unused := np.setdiff1d(np.arange(words), chosen)):
        place = tuple(generator.integers(chosen.shape))
        if np.count_nonzero(chosen == chosen[place]) > 1:
            chosen[place] = unused[0]
    return [[int(word) for word in own] for own in chosen]
