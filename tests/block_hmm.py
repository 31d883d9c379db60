"""A small HMM whose states and words fall into two blocks that never mix."""

from isoloss.languages.hmm import HMM
from isoloss.languages.random_hmm import random_hmm


def block_hmm() -> HMM:
    return random_hmm(words=12, states=8, blocks=2, length=8, seed=0)
