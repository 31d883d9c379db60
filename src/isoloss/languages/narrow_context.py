"""A word's distribution given only nearby words, in contrast to that given all other words.

The narrow context of a task excludes the structure that determines its label: for a layered grammar,
everything outside the aligned window one level below the label's symbol; for a hidden Markov model, all words
but the two neighbours.

Words that no symbol or state distinguishes form one kind, and both distributions are computed over kinds: a
word's share within its kind is the same in every context, so divergences between the distributions over kinds
equal those over words.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.inference.chart_plan import BinaryGrammar, ChartPlan, sentence_plan
from isoloss.inference.forward_backward import forward
from isoloss.inference.hidden_markov_chain import HiddenMarkovChain
from isoloss.inference.inside_outside import log_weights, masked_distribution
from isoloss.languages.constituent_task import ConstituentTask
from isoloss.languages.hmm import StateTask
from isoloss.languages.pcfg import PCFG
from isoloss.languages.task import Task


@runtime_checkable
class NarrowContext(Protocol):
    """Distributions, float64, of sentences of `length` words, each represented by its kind; see `kinds`."""

    @property
    def length(self) -> int:
        """T, the number of words of every sentence."""
        ...

    @property
    def kinds(self) -> Int[Tensor, " c"]:
        """The kind of each of the language's c words, from 0."""
        ...

    @property
    def seen(self) -> str:
        """A description of the context on which the narrow distribution is conditioned."""
        ...

    def log_weight(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, " n"]:
        """log Pr(kinds of the sentence) in nats, -inf for an impossible one."""
        ...

    def masked_distribution(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, "n T g"]:
        """Pr(kind at t | all other words)."""
        ...

    def narrow_distribution(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, "n T g"]:
        """Pr(kind at t | the other words that are seen)."""
        ...


@dataclass(frozen=True, eq=False)
class AlignedWindows:
    """A grammar whose words are kinds; spans of 1, 2, 4, .., `length` words are the same in every tree.

    The narrow distribution at t is conditioned on the other words of the window of `window` words that
    contains t. It is that of a separate grammar, whose root is distributed as the symbol over that window
    under the levels above.
    """

    grammar: BinaryGrammar
    length: int
    window: int
    kinds: Int[Tensor, " c"]

    @property
    def seen(self) -> str:
        return f"the aligned window of {self.window} word{'s' if self.window > 1 else ''}"

    def log_weight(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, " n"]:
        return log_weights(self.grammar, self._plan, ids)

    def masked_distribution(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, "n T g"]:
        return masked_distribution(self.grammar, self._plan, ids)

    def narrow_distribution(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, "n T g"]:
        windows = torch.split(ids, self.window, dim=1)
        parts = zip(self._windows, windows, strict=True)
        return torch.cat([masked_distribution(grammar, plan, own) for (grammar, plan), own in parts], dim=1)

    @cached_property
    def _plan(self) -> ChartPlan:
        return sentence_plan(self.grammar, self.length, self.grammar.initial > 0)

    @cached_property
    def _windows(self) -> list[tuple[BinaryGrammar, ChartPlan]]:
        grammars = [replace(self.grammar, initial=root) for root in self._window_roots()]
        return [(g, sentence_plan(g, self.window, g.initial > 0)) for g in grammars]

    def _window_roots(self) -> list[Float[Tensor, " S"]]:
        """For each window, the weight of every symbol over it, summed over all words outside it."""
        grammar, free = self.grammar, self.grammar.length_weights(self.length)
        roots, span = [grammar.initial], self.length
        while span > self.window:
            span //= 2
            halves = []
            for root in roots:
                used = root[grammar.parent] * grammar.weight
                nothing = torch.zeros_like(root)
                halves.append(nothing.index_add(0, grammar.left, used * free[span, grammar.right]))
                halves.append(nothing.index_add(0, grammar.right, used * free[span, grammar.left]))
            roots = halves
        return roots


@dataclass(frozen=True, eq=False)
class Neighbours:
    """A hidden Markov chain whose words are kinds; the narrow context at t is those at t - 1 and t + 1."""

    chain: HiddenMarkovChain
    length: int
    kinds: Int[Tensor, " c"]

    @property
    def seen(self) -> str:
        return "the two neighbouring words"

    def log_weight(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, " n"]:
        return forward(self.chain, ids).log_probability

    def masked_distribution(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, "n T g"]:
        return forward(self.chain, ids).smoothed().masked_distribution

    def narrow_distribution(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, "n T g"]:
        chain, states = self.chain, self.chain.initial.expand(len(ids), -1)
        marginal, distributions = self.chain.initial, []
        for t in range(self.length):
            here = states
            if t + 1 < self.length:
                here = states * (chain.by_word[ids[:, t + 1]] @ chain.transition.T)
            distributions.append(here @ chain.emission)
            states = (marginal * chain.by_word[ids[:, t]]) @ chain.transition
            marginal = marginal @ chain.transition
        distribution = torch.stack(distributions, dim=1)
        return distribution / distribution.sum(2, keepdim=True)


def narrow_context(task: Task) -> AlignedWindows | Neighbours | None:
    """The narrow context of a grammar's or an HMM's task; None if it is not defined.

    None for a grammar whose trees differ in shape or do not halve, and for every other kind of task.

    >>> from isoloss.languages.random_grammar import laptop_grammar
    >>> from isoloss.languages.pcfg import pcfg
    >>> [narrow_context(task).seen for task in pcfg(laptop_grammar(5)).tasks()][0]
    'the aligned window of 4 words'
    """
    match task:
        case ConstituentTask() if _halves(task.language):
            grammar = task.language.form.grammar
            span = task.length or task.language.maximum_length
            kinds, emission = merged_words(grammar.emission)
            merged = replace(grammar, emission=emission)
            return AlignedWindows(merged, task.language.maximum_length, span // 2, kinds)
        case StateTask():
            chain = task.language.chain
            kinds, emission = merged_words(chain.emission)
            merged_chain = HiddenMarkovChain(chain.initial, chain.transition, emission)
            return Neighbours(merged_chain, task.language.length, kinds)
        case _:
            return None


def merged_words(emission: Float[Tensor, "S c"]) -> tuple[Int[Tensor, " c"], Float[Tensor, "S g"]]:
    """The kind of each word, and the probability with which each symbol emits each kind.

    Words are of the same kind if their columns are proportional, up to rounding.

    >>> table = torch.tensor([[0.1, 0.4, 0.5], [0.0, 0.0, 1.0]], dtype=torch.float64)
    >>> kinds, merged = merged_words(table)
    >>> (kinds[0] == kinds[1]).item(), merged[:, kinds[0]].tolist()
    (True, [0.5, 0.0])
    """
    total = emission.sum(0)
    shares = emission / torch.where(total > 0, total, 1.0)
    distinct, kinds = torch.unique(shares.round(decimals=12), dim=1, return_inverse=True)
    merged = torch.zeros(len(emission), distinct.shape[1], dtype=emission.dtype)
    return kinds, merged.index_add(1, kinds, emission)


def _halves(language: PCFG) -> bool:
    """Whether all sentences have the same length, and all derivations the spans of a balanced tree."""
    if language.longest is None:
        return False
    longest, grammar = language.longest, language.form.grammar
    possible = (grammar.derivable_lengths(longest) & (grammar.initial > 0)).any(1).nonzero()[:, 0].tolist()
    if possible != [longest]:  # its chart may be large
        return False
    levels = language.sentence_plan(longest).levels
    spans = {length: list(level.starts) for length, level in levels.items()}
    halved = {1 << k: list(range(0, longest, 1 << k)) for k in range(longest.bit_length())}
    return spans == halved
