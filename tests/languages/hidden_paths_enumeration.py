"""The oracle for hidden Markov models: every path of states, in plain Python."""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from math import fsum

Distribution = Sequence[float]
Words = tuple[int, ...]


class PathEnumeration:
    """Sums and maxima of Pr(z, x) over all S^T paths z of states."""

    def __init__(
        self, initial: Distribution, transition: Sequence[Distribution], emission: Sequence[Distribution]
    ) -> None:
        self.initial, self.transition, self.emission = initial, transition, emission

    def joint(self, path: Words, words: Words) -> float:
        weight = self.initial[path[0]]
        for before, after in itertools.pairwise(path):
            weight *= self.transition[before][after]
        for state, word in zip(path, words, strict=True):
            weight *= self.emission[state][word]
        return weight

    def paths(self, words: Words) -> dict[Words, float]:
        all_paths = itertools.product(range(len(self.initial)), repeat=len(words))
        return {path: self.joint(path, words) for path in all_paths}

    def sentences(self, length: int) -> dict[Words, float]:
        """Every possible sentence with its probability."""
        found = {
            words: fsum(self.paths(words).values())
            for words in itertools.product(range(self.vocabulary), repeat=length)
        }
        return {words: weight for words, weight in found.items() if weight > 0}

    def state_posterior(self, words: Words, place: int) -> list[float]:
        weights: dict[int, float] = defaultdict(float)
        for path, weight in self.paths(words).items():
            weights[path[place]] += weight
        total = fsum(weights.values())
        return [weights[state] / total for state in range(len(self.initial))]

    @cached_property
    def vocabulary(self) -> int:
        return len(self.emission[0])
