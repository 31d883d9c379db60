"""Random layered grammars, as the paper's pre-training language (Section A.1), and unambiguous ones."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from isoloss.errors import BadInput
from isoloss.languages.grammar import Grammar, Right, Rule, Symbol
from isoloss.languages.random_sizes import refuse_impossible_grammar, refuse_impossible_hierarchy

PERMUTATIONS_TRIED = 1000


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
    refuse_impossible_grammar(
        words=words,
        symbols_per_level=symbols_per_level,
        levels=levels,
        rules_per_symbol=rules_per_symbol,
        roots=roots,
        words_per_preterminal=words_per_preterminal,
    )
    generator = np.random.default_rng(seed)
    names = _names(roots, symbols_per_level, levels)
    rules = _start_rules(names[0], 1.0, generator)
    for level, upper in enumerate(names[:-1]):
        own = _pairs(len(upper), symbols_per_level, rules_per_symbol, generator)
        rules += _rules(upper, _right_sides(own, names[level + 1]), 1.0, generator)
    chosen = _words(symbols_per_level, words, words_per_preterminal, generator)
    sides: list[list[Right]] = [[(f"w{word + 1}",) for word in own] for own in chosen]
    rules += _rules(names[-1], sides, 1.0, generator)
    return Grammar(Symbol("S"), tuple(rules), f"random layered grammar {seed}")


def random_hierarchy_grammar(
    *,
    symbols_per_level: int,
    words_per_preterminal: int,
    levels: int,
    rules_per_symbol: int,
    roots: int,
    concentration: float,
    seed: int,
) -> Grammar:
    """A layered grammar in which every word and every pair of symbols of a level has at most one parent.

    A sentence of 2^`levels` words therefore has one tree, and every posterior over symbols is decided. This
    is the random hierarchy model of Cagnetta et al. 2024 ("How Deep Neural Networks Learn Compositional
    Data"), with probabilities: each symbol's are drawn from a Dirichlet distribution with parameter
    `concentration`, theirs being the limit of a large one, in which all rules are equally likely. Every
    lower symbol is used. Raises BadInput where the numbers do not allow it.

    >>> grammar = random_hierarchy_grammar(
    ...     symbols_per_level=2, words_per_preterminal=1, levels=1, rules_per_symbol=2, roots=2,
    ...     concentration=1e9, seed=0
    ... )
    >>> len(grammar.words), sorted(round(rule.probability, 3) for rule in grammar.rules)
    (2, [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0])
    """
    refuse_impossible_hierarchy(
        symbols_per_level=symbols_per_level,
        words_per_preterminal=words_per_preterminal,
        levels=levels,
        rules_per_symbol=rules_per_symbol,
        roots=roots,
        concentration=concentration,
    )
    generator = np.random.default_rng(seed)
    names = _names(roots, symbols_per_level, levels)
    rules = _start_rules(names[0], concentration, generator)
    for level, upper in enumerate(names[:-1]):
        # All right sides of a level are drawn like those of one symbol, which are distinct, and dealt out.
        (drawn,) = _pairs(1, symbols_per_level, rules_per_symbol * len(upper), generator)
        own = [drawn[n * rules_per_symbol : (n + 1) * rules_per_symbol] for n in range(len(upper))]
        rules += _rules(upper, _right_sides(own, names[level + 1]), concentration, generator)
    words = np.arange(1, symbols_per_level * words_per_preterminal + 1).reshape(symbols_per_level, -1)
    sides: list[list[Right]] = [[(f"w{word}",) for word in own] for own in words]
    rules += _rules(names[-1], sides, concentration, generator)
    return Grammar(Symbol("S"), tuple(rules), f"random hierarchy grammar {seed}")


def with_other_upper_rules(grammar: Grammar, shared_levels: int, seed: int) -> Grammar:
    """A second language with the same lower rules: only pairs above the lowest `shared_levels` are changed.

    At each level above, one random permutation of all pairs of symbols replaces every right side. What holds
    of a `random_layered_grammar` or `random_hierarchy_grammar` holds of the result: right sides with one
    parent keep one, all symbols are used, probabilities and hence the entropy of the trees are the same; at
    every level above some right side differs. `shared_levels` counts binary levels; words and preterminals
    are always shared. Raises BadInput if that leaves no level to change or if no other pairs exist.

    >>> other = with_other_upper_rules(laptop_grammar(0), shared_levels=2, seed=1)
    >>> changed = [a.left.name for a, b in zip(laptop_grammar(0).rules, other.rules) if a != b]
    >>> set(changed) <= {"R1", "R2"}, other.words == laptop_grammar(0).words
    (True, True)
    """
    layers = _layers(grammar)
    levels = len(layers) - 1
    if not 0 <= shared_levels < levels:
        raise BadInput(
            f"of {levels} binary levels, {shared_levels} cannot be shared with one left to change; "
            f"share 0 to {levels - 1}"
        )
    generator = np.random.default_rng(seed)
    mapped: dict[Symbol, dict[Right, Right]] = {}
    for upper, lower in pairwise(layers[: levels - shared_levels + 1]):
        exchanged = _exchanged_pairs(grammar, upper, lower, generator)
        mapped |= dict.fromkeys(upper, exchanged)
    rules = [
        replace(rule, right=mapped[rule.left][rule.right]) if rule.left in mapped else rule
        for rule in grammar.rules
    ]
    return replace(grammar, rules=tuple(rules), source=f"{grammar.source}, with other upper rules {seed}")


def with_independent_halves(grammar: Grammar, dependence: float) -> Grammar:
    """The same right sides, where the two halves of a sentence depend on each other as little as is asked.

    The roots' pairs have a joint distribution J(a, b), their probabilities times their roots'. It is mixed
    with the product of its two marginals: `dependence` · J + (1 - `dependence`) · J(a) J(b). At 1 nothing
    changes. At 0 the halves are independent, and no word of one says anything of the other: a root that both
    determine costs no loss to ignore (its price is 0), while the words, the halves' distributions and,
    where each pair has one root, the labels stay what they are. Raises BadInput unless each pair of symbols
    below the roots is one's right side, as in a `random_hierarchy_grammar` that uses all pairs.
    """
    if not 0 <= dependence <= 1:
        raise BadInput(f"halves keep a share from 0 to 1 of their dependence, not {dependence:g}")
    roots, lower, *_ = [*_layers(grammar), ()]
    root = {rule.right[0]: rule.probability for rule in grammar.rules if rule.left == grammar.start}
    of_roots = [rule for rule in grammar.rules if rule.left in roots]
    if len({rule.right for rule in of_roots}) != len(lower) ** 2 or len(of_roots) != len(lower) ** 2:
        raise BadInput(
            f"the roots have {len(of_roots)} right sides, and {len(lower)} symbols below them make "
            f"{len(lower) ** 2} pairs; each must be one"
        )
    joint = {rule.right: root[rule.left] * rule.probability for rule in of_roots}
    left, right = (_totals((pair[n], p) for pair, p in joint.items()) for n in (0, 1))
    mixed = {
        pair: dependence * p + (1 - dependence) * left[pair[0]] * right[pair[1]] for pair, p in joint.items()
    }
    total = _totals((rule.left, mixed[rule.right]) for rule in of_roots)

    def changed(rule: Rule) -> Rule:
        if rule.left == grammar.start:
            return replace(rule, probability=total[rule.right[0]])
        return replace(rule, probability=mixed[rule.right] / total[rule.left]) if rule.left in roots else rule

    source = f"{grammar.source}, halves dependent by {dependence:g}"
    return replace(grammar, rules=tuple(map(changed, grammar.rules)), source=source)


def _totals(weights: Iterable[tuple[Symbol | str, float]]) -> dict[Symbol | str, float]:
    totals: dict[Symbol | str, float] = defaultdict(float)
    for item, weight in weights:
        totals[item] += weight
    return totals


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


def _names(roots: int, symbols_per_level: int, levels: int) -> list[list[str]]:
    """The symbols' names, level by level from the roots to the preterminals."""
    names = [[f"R{n}" for n in range(1, roots + 1)]]
    return names + [
        [f"L{level}_{n}" for n in range(1, symbols_per_level + 1)] for level in range(1, levels + 1)
    ]


def _start_rules(roots: Sequence[str], concentration: float, generator: np.random.Generator) -> list[Rule]:
    return _rules(["S"], [[(Symbol(name),) for name in roots]], concentration, generator)


def _rules(
    upper: Sequence[str],
    sides: Sequence[Sequence[Right]],
    concentration: float,
    generator: np.random.Generator,
) -> list[Rule]:
    """Every symbol's rules, with drawn probabilities."""
    rules: list[Rule] = []
    for name, own in zip(upper, sides, strict=True):
        distribution = generator.dirichlet(np.full(len(own), concentration))
        rules += [Rule(Symbol(name), side, float(p)) for side, p in zip(own, distribution, strict=True)]
    return rules


def _right_sides(pairs: Sequence[Sequence[tuple[int, int]]], lower: Sequence[str]) -> list[list[Right]]:
    return [[(Symbol(lower[a]), Symbol(lower[b])) for a, b in own] for own in pairs]


def _layers(grammar: Grammar) -> list[tuple[Symbol, ...]]:
    """The roots and the symbols of each level below, in the order of the rules.

    Raises BadInput unless the start leads to roots, and every level to pairs of the next or, the last, to
    words.
    """
    lower = tuple(
        dict.fromkeys(item for item in _items(grammar, (grammar.start,)) if isinstance(item, Symbol))
    )
    layers, seen = [], {grammar.start}
    while lower:
        layers.append(lower)
        seen |= set(lower)
        items = _items(grammar, lower)
        lower = tuple(dict.fromkeys(item for item in items if isinstance(item, Symbol)))
        if seen & set(lower) or (lower and any(isinstance(item, str) for item in items)):
            raise BadInput(f"{grammar.source} is not layered; give one that random_layered_grammar makes")
    above = [rule for rule in grammar.rules if rule.left in sum(layers[:-1], ())]
    if any(len(rule.right) != 2 for rule in above):
        raise BadInput(f"{grammar.source} is not binary; give one that random_layered_grammar makes")
    return layers


def _items(grammar: Grammar, upper: tuple[Symbol, ...]) -> list[Symbol | str]:
    return [item for rule in grammar.rules if rule.left in upper for item in rule.right]


def _exchanged_pairs(
    grammar: Grammar, upper: tuple[Symbol, ...], lower: tuple[Symbol, ...], generator: np.random.Generator
) -> dict[Right, Right]:
    """A permutation of all pairs of `lower` that changes a symbol of `upper` and uses every lower one."""
    pairs: list[Right] = [(a, b) for a in lower for b in lower]
    own = [[rule.right for rule in grammar.rules if rule.left == symbol] for symbol in upper]
    for _ in range(PERMUTATIONS_TRIED):
        order = generator.permutation(len(pairs))
        exchanged = dict(zip(pairs, (pairs[n] for n in order), strict=True))
        new = [[exchanged[side] for side in sides] for sides in own]
        used = {item for sides in new for side in sides for item in side}
        if used == set(lower) and any(set(a) != set(b) for a, b in zip(own, new, strict=True)):
            return exchanged
    raise BadInput(
        f"{grammar.source}: no other pairs of {lower[0].name} to {lower[-1].name} were found that use each "
        "of them; give fewer rules a symbol, or more roots"
    )


def _pairs(upper: int, lower: int, rules: int, generator: np.random.Generator) -> list[list[tuple[int, int]]]:
    """For each of `upper` symbols, `rules` distinct pairs of `lower` symbols, all of which are used."""
    numbers = [generator.choice(lower**2, rules, replace=False) for _ in range(upper)]
    sides = np.array([np.stack(np.divmod(own, lower), 1) for own in numbers])
    while len(unused := np.setdiff1d(np.arange(lower), sides)):
        place = tuple(generator.integers(sides.shape))
        if np.count_nonzero(sides == sides[place]) > 1:  # a pair with an unused symbol is a new one
            sides[place] = unused[0]
    return [[(int(a), int(b)) for a, b in own] for own in sides]


def _words(symbols: int, words: int, each: int, generator: np.random.Generator) -> list[list[int]]:
    """For each symbol, `each` distinct words, such that every word is used."""
    chosen = np.array([generator.choice(words, each, replace=False) for _ in range(symbols)])
    while len(unused := np.setdiff1d(np.arange(words), chosen)):
        place = tuple(generator.integers(chosen.shape))
        if np.count_nonzero(chosen == chosen[place]) > 1:
            chosen[place] = unused[0]
    return [[int(word) for word in own] for own in chosen]
