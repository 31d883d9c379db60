"""The oracle for hidden Markov models: every path of states, in plain Python."""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from math import fsum

Distribution = Sequence[float]
Words = tuple[int, ...]


class PathEnumeration:
    """Sums of Pr(z, x) over all possible paths z of states."""

    def __init__(
        self, initial: Distribution, transition: Sequence[Distribution], emission: Sequence[Distribution]
    ) -> None:
        self.initial, self.transition, self.emission = initial, transition, emission

    def paths(self, words: Words) -> dict[Words, float]:
        """Those that are possible with the words, each with its probability together with them."""
        found = {
            (state,): weight * self.emission[state][words[0]] for state, weight in enumerate(self.initial)
        }
        for word in words[1:]:
            found = {
                (*path, state): weight * self.transition[path[-1]][state] * self.emission[state][word]
                for path, weight in found.items()
                if weight > 0
                for state in range(len(self.initial))
            }
        return found

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
