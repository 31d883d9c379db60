"""Models at an exact fit of small languages, for theory."""

from isoloss.languages.random_hmm import random_hmm
from isoloss.theory.context_distributions import enumerated_contexts
from isoloss.theory.minimisers import Minimisers
from isoloss.theory.softmax_model import FactorTable


def small_language(words=3, length=2):
    return random_hmm(words=words, states=2, blocks=1, length=length, seed=900)


def factor_problem(words=3, rank=3, seed=900):
    """A table in two factors that has not seen the distribution, and where it starts."""
    distributions = enumerated_contexts(small_language(words)).distributions
    model = FactorTable(len(distributions.weight), words, rank)
    return Minimisers(model, distributions), model.random_parameters(seed)
