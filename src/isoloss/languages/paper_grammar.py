"""Layered grammars whose inner symbols also emit words, so that sentences vary in length (Section A.1).

The paper's grammar is not published. What is known about it is: 200 words, 50 symbols, sentences of at most
32 words (five binary levels and the words), 17 words on average, and a masked entropy of 3.196 nats. The
grammar that its authors released is of the same kind with one level fewer, and shows how lengths vary: every
symbol between the roots and the preterminals has one rule that leads to a word. This module constructs such
grammars, with one parameter for the length and one for the entropy.
"""

import math
from dataclasses import replace

import numpy as np
import torch

from isoloss.errors import BadInput
from isoloss.languages.grammar import Grammar, Rule
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import random_layered_grammar

LEVELS = 5
"""Binary levels: 2^5 = 32 words at most."""


def paper_sized_grammar(*, word_share: float, sharpness: float, seed: int) -> Grammar:
    """A grammar of 200 words and 50 symbols: 10 roots, and 5 levels of 8 below them; 10 binary rules each.

    It is a `random_layered_grammar` with 80 words per preterminal, like the released grammar, with two
    changes. `word_share` sets the length: each symbol of the four levels between roots and preterminals
    becomes one word, drawn for it at random, with a probability uniform on (0, 2 · `word_share`); in the
    released grammar these lie between 0.04 and 0.42, 0.17 on average. `sharpness` sets the entropy: the
    distribution of a preterminal's words is drawn uniformly over all distributions, raised to that power and
    normalised; 1 leaves it unchanged. Both parameters change their quantity continuously, because the random
    numbers are the same at every setting. Raises BadInput for a share outside 0 to 0.5, or a sharpness that
    is not positive.

    >>> grammar = paper_sized_grammar(word_share=0.2, sharpness=2.0, seed=0)
    >>> len(grammar.words), len(grammar.symbols) - 1, round(mean_length(grammar), 2)
    (200, 50, 16.86)
    """
    if not 0 <= word_share <= 0.5:
        raise BadInput(f"the mean probability of a word must lie between 0 and 0.5, not {word_share:g}")
    if not sharpness > 0:
        raise BadInput(f"a sharpness of {sharpness:g} makes no distribution of words; give a number above 0")
    layered = random_layered_grammar(
        words=200,
        symbols_per_level=8,
        levels=LEVELS,
        rules_per_symbol=10,
        roots=10,
        words_per_preterminal=80,
        seed=seed,
    )
    generator = np.random.default_rng((seed, 1))
    rules: list[Rule] = []
    for symbol in layered.symbols:
        own = [rule for rule in layered.rules if rule.left == symbol]
        if isinstance(own[0].right[0], str):
            rules += _sharpened(own, sharpness)
        elif symbol.name.startswith("L"):
            share = 2 * word_share * float(generator.random())
            word = layered.words[int(generator.integers(len(layered.words)))]
            rules += [replace(rule, probability=(1 - share) * rule.probability) for rule in own]
            rules.append(Rule(symbol, (word,), share))
        else:
            rules += own
    return Grammar(layered.start, tuple(rules), f"paper-sized grammar {seed}")


def mean_length(grammar: Grammar) -> float:
    """Expected number of words of a sentence, exact: Σ l Pr(length = l) of a grammar that is not recursive.

    >>> from isoloss.languages.notation import parse_grammar
    >>> mean_length(parse_grammar("S -> 'a' 'b' [0.5] | 'a' [0.5]"))
    1.5
    """
    language = pcfg(grammar)
    distribution = (
        language.form.grammar.length_weights(language.maximum_length) @ language.form.grammar.initial
    )
    return float(torch.arange(len(distribution), dtype=distribution.dtype) @ distribution)


def _sharpened(rules: list[Rule], sharpness: float) -> list[Rule]:
    # Powers differ in their last bits between processors. Rounded, the same grammar, whose digest names runs,
    # is drawn on all of them.
    weights = [float(f"{rule.probability**sharpness:.9g}") for rule in rules]
    total = math.fsum(weights)
    return [replace(rule, probability=weight / total) for rule, weight in zip(rules, weights, strict=True)]
