"""Pairs of words that tend to be alike: a language whose contexts say much about the word they hide."""

import torch

from isoloss.languages.hmm import HMM, hmm


def alike_pairs(words: int, stay: float = 0.9) -> HMM:
    """A hidden Markov model of sentences of two words, with a state a word.

    A state stays, and emits its own word, with probability `stay`; the rest is spread over all words. Word w
    begins a sentence in proportion to w, so that words differ in frequency. Small random models hardly tell
    contexts apart, and a model of word frequencies alone is 0.002 nats from their law.

    >>> alike_pairs(2, stay=0.5).transition.tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    kept = stay * torch.eye(words, dtype=torch.float64) + (1 - stay) / words
    initial = torch.arange(1, words + 1, dtype=torch.float64)
    names = [f"w{number}" for number in range(1, words + 1)]
    return hmm(names, initial / initial.sum(), kept, kept, 2, "pairs of words that tend to be alike")
