"""The small languages of the experiments, chosen because their tasks cannot be read off the words.

They have the most room in searches over random languages (`isoloss language grammar-search`, `hmm-search`),
which train no model, except that the headline grammar ranks second to the second grammar, which was used in
early pilot runs. Sentences have 8 words.
"""

from isoloss.languages.hmm import HMM
from isoloss.languages.pcfg import PCFG, pcfg
from isoloss.languages.random_grammar import random_layered_grammar
from isoloss.languages.random_hmm import random_hmm


def headline_grammar() -> PCFG:
    """The grammar of Figure 1: 6 words, 3 roots, 3 levels of 3 symbols with 5 rules each.

    Six words for three preterminals of two words each: every word has one preterminal.

    >>> [task.name for task in headline_grammar().tasks()]
    ['prefix-8', 'prefix-4', 'prefix-2']
    """
    return _six_words(rules_per_symbol=5, seed=747)


def second_grammar() -> PCFG:
    """Another grammar of the same size, to see what is specific to the first.

    >>> second_grammar().vocabulary == headline_grammar().vocabulary
    False
    """
    return _six_words(rules_per_symbol=5, seed=18)


def third_grammar() -> PCFG:
    """A third grammar, with 4 rules per symbol instead of 5.

    >>> len(headline_grammar().grammar.rules) - len(third_grammar().grammar.rules)
    9
    """
    return _six_words(rules_per_symbol=4, seed=49)


def small_hmm() -> HMM:
    """An HMM of 12 words and 24 states with sparse transitions.

    >>> tuple(small_hmm().emission.shape), small_hmm().maximum_length
    ((24, 12), 8)
    """
    return random_hmm(
        words=12,
        states=24,
        blocks=1,
        length=8,
        transition_concentration=0.15,
        emission_concentration=0.5,
        seed=7,
    )


def _six_words(rules_per_symbol: int, seed: int) -> PCFG:
    return pcfg(
        random_layered_grammar(
            words=6,
            symbols_per_level=3,
            levels=3,
            rules_per_symbol=rules_per_symbol,
            roots=3,
            words_per_preterminal=2,
            seed=seed,
        )
    )
