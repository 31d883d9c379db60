"""The paper's languages (A.1), with the entropies and the length that it reports, and the search for them.

The paper publishes neither its grammar nor its hidden Markov model. Three of the numbers it gives do not
follow from the sizes: the two entropies of masked words (its preprint, Section 2.3), and that 2e7 sentences
of the grammar have 3.4e8 words. Random languages of the paper's sizes are tuned to match them.
"""

from collections.abc import Callable

from scipy.optimize import brentq

from isoloss.languages.hmm import HMM
from isoloss.languages.paper_grammar import mean_length, paper_sized_grammar
from isoloss.languages.pcfg import PCFG, pcfg
from isoloss.languages.random_hmm import random_hmm
from isoloss.measurements.entropy import ExactDistributions, masked_entropy

GRAMMAR_ENTROPY, HMM_ENTROPY = 3.196, 3.758
"""Of masked words, in nats; means over sentences here, where the paper does not say."""
GRAMMAR_LENGTH = 17.0
"""Words a sentence on average: 3.4e8 in 2e7."""

LANGUAGE_SEED = 5
WORD_SHARE = 0.1759
SHARPNESS = 2.676
EMISSION_CONCENTRATION = 0.351
"""What the searches below found, rounded."""

SEARCH_SENTENCES, SEARCH_SEED = 8000, 31


def paper_pcfg() -> PCFG:
    """The grammar: 200 words, 50 symbols, sentences of 17 words on average and 32 at most.

    >>> language = paper_pcfg()
    >>> len(language.vocabulary), language.maximum_length
    (200, 32)
    """
    return _grammar(WORD_SHARE, SHARPNESS)


def paper_hmm() -> HMM:
    """The hidden Markov model: 200 words, 100 states in 4 blocks, sentences of 16 words.

    A block's words bound the entropy from above, so 3.758 nats need at least e^3.758 = 43 words a block: 4
    blocks at most. The distributions of transitions are Dirichlet with concentration 0.15.

    >>> tuple(paper_hmm().emission.shape), int((paper_hmm().transition[0] > 0).sum())
    ((100, 200), 25)
    """
    return _hidden_markov_model(EMISSION_CONCENTRATION)


def found_word_share() -> float:
    """The mean probability of a word at which the grammar's sentences have 17 words on average."""

    def excess(share: float) -> float:
        grammar = paper_sized_grammar(word_share=share, sharpness=1.0, seed=LANGUAGE_SEED)
        return mean_length(grammar) - GRAMMAR_LENGTH

    return float(brentq(excess, 0.05, 0.45, xtol=1e-4))


def found_sharpness() -> float:
    """The sharpness of words' distributions at which the grammar has its entropy; minutes."""
    return _dial(lambda sharpness: _grammar(WORD_SHARE, sharpness), GRAMMAR_ENTROPY, 2.5, 3.0)


def found_emission_concentration() -> float:
    """The concentration of the distributions of words at which the hidden Markov model has its entropy."""
    return _dial(_hidden_markov_model, HMM_ENTROPY, 0.15, 0.5)


def _dial(
    language_at: Callable[[float], ExactDistributions], wanted: float, low: float, high: float
) -> float:
    """Where a language's entropy is `wanted`, on the same draws at every setting."""

    def excess(setting: float) -> float:
        return masked_entropy(language_at(setting), SEARCH_SENTENCES, SEARCH_SEED).value - wanted

    return float(brentq(excess, low, high, xtol=1e-3))


def _grammar(word_share: float, sharpness: float) -> PCFG:
    return pcfg(paper_sized_grammar(word_share=word_share, sharpness=sharpness, seed=LANGUAGE_SEED))


def _hidden_markov_model(emission_concentration: float) -> HMM:
    return random_hmm(
        words=200,
        states=100,
        blocks=4,
        length=16,
        seed=LANGUAGE_SEED,
        transition_concentration=0.15,
        emission_concentration=emission_concentration,
    )
