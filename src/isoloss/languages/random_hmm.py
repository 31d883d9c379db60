"""Random hidden Markov models, dense or block-diagonal (Section A.1)."""

import numpy as np
import torch

from isoloss.languages.hmm import HMM, hmm
from isoloss.languages.random_sizes import refuse_impossible_hmm


def random_hmm(
    *,
    words: int,
    states: int,
    blocks: int,
    length: int,
    seed: int,
    transition_concentration: float = 1.0,
    emission_concentration: float = 1.0,
) -> HMM:
    """An HMM whose states and words fall into `blocks` equal blocks that never mix; 1 block is dense.

    States transition only to states of their block and emit only its words; the initial distribution
    covers all states, so that a sentence stays in the block in which it starts. The initial distribution is
    drawn uniformly over all distributions (Dirichlet with parameter 1); transition and emission distributions
    are Dirichlet with separate concentrations on the entries allowed to be positive: 1 is uniform, less makes
    a few entries likely and the others rare. Raises BadInput if the numbers do not allow it.

    >>> two = random_hmm(words=4, states=4, blocks=2, length=3, seed=0)
    >>> (two.transition > 0).int().tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    """
    refuse_impossible_hmm(
        words=words,
        states=states,
        blocks=blocks,
        length=length,
        transition_concentration=transition_concentration,
        emission_concentration=emission_concentration,
    )
    generator = np.random.default_rng(seed)
    initial = torch.from_numpy(generator.dirichlet(np.ones(states)))
    transition = _block_diagonal(states, states, blocks, transition_concentration, generator)
    emission = _block_diagonal(states, words, blocks, emission_concentration, generator)
    names = [f"w{number}" for number in range(1, words + 1)]
    return hmm(names, initial, transition, emission, length, f"random HMM {seed}")


def _block_diagonal(
    rows: int, columns: int, blocks: int, concentration: float, generator: np.random.Generator
) -> torch.Tensor:
    matrix = np.zeros((rows, columns))
    tall, wide = rows // blocks, columns // blocks
    for block in range(blocks):
        distributions = generator.dirichlet(np.full(wide, concentration), tall)
        matrix[block * tall : (block + 1) * tall, block * wide : (block + 1) * wide] = distributions
    return torch.from_numpy(matrix)
