"""Models at an exact fit of small languages, for theory."""

from isoloss.languages.random_hmm import random_hmm
from isoloss.theory.minimisers import factor_table
from isoloss.theory.softmax_model import bartlett_matrices


def small_language(words=3, length=2):
    return random_hmm(words=words, states=2, blocks=1, length=length, seed=900)


def factor_problem(words=3, rank=3, seed=900):
    """A table in two factors that has not seen the distribution, and where it starts."""
    return factor_table(words, rank, language_seed=900, start_seed=seed)


def matrices_of(minimisers, parameters):
    """Covariance, Hessian and Fisher information, dense."""
    return bartlett_matrices(minimisers.logits, minimisers.distributions, parameters)
