"""Grammars beside the usual code: `python -m benchmarks.pcfg [--json]`.

One thread, one process, interleaved pairs, medians, on the grammar that the authors released. Slow peers
do a stated share of their work and are scaled up, which flatters none: their cost is that of equal passes.
"""

import argparse
import itertools
import json
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import nltk
import torch
from torch import Tensor

from isoloss.inference.chart_plan import BinaryGrammar
from isoloss.inference.inside_outside import log_weights
from isoloss.languages.pcfg import PCFG, pcfg, read_pcfg
from isoloss.languages.random_grammar import random_layered_grammar
from isoloss.languages.sentences import Sentences

RELEASED = Path(__file__).parents[1] / "tests" / "data" / "liu2023-released.pcfg"


@dataclass(frozen=True)
class Comparison:
    """Median microseconds a sentence, of the library and of a peer, and the median of the pairs' ratios."""

    name: str
    peer: str
    microseconds: float
    peer_microseconds: float
    times_as_fast: float


def compare(
    name: str, ours: Callable[[], int], peer: str, theirs: Callable[[], float], pairs: int
) -> Comparison:
    """Time both in turn after a warm-up; each returns how many sentences' work it did."""
    ours()
    times = [(per_sentence(ours), per_sentence(theirs)) for _ in range(pairs)]
    return Comparison(
        name,
        peer,
        statistics.median(own for own, _ in times),
        statistics.median(other for _, other in times),
        statistics.median(other / own for own, other in times),
    )


def per_sentence(work: Callable[[], float]) -> float:
    start = time.perf_counter()
    sentences = work()
    return (time.perf_counter() - start) / sentences * 1e6


class RecursiveSampler:
    """A Python call a symbol, over NLTK's productions, each drawn by the standard library."""

    def __init__(self, grammar: nltk.PCFG) -> None:
        self.start = grammar.start()
        self.productions = defaultdict(list)
        for production in grammar.productions():
            self.productions[production.lhs()].append(production)
        self.cumulative = {
            symbol: list(itertools.accumulate(production.prob() for production in own))
            for symbol, own in self.productions.items()
        }

    def by_scan(self, symbol: nltk.Nonterminal) -> list[str]:
        """Subtract probabilities until a random number is used up."""
        left = random.random()
        for production in self.productions[symbol]:
            left -= production.prob()
            if left <= 0:
                break
        words = []
        for item in production.rhs():
            words += [item] if isinstance(item, str) else self.by_scan(item)
        return words

    def by_choices(self, symbol: nltk.Nonterminal) -> list[str]:
        """`random.choices` with cumulative weights made beforehand."""
        own = self.productions[symbol]
        (production,) = random.choices(own, cum_weights=self.cumulative[symbol])
        words = []
        for item in production.rhs():
            words += [item] if isinstance(item, str) else self.by_choices(item)
        return words


class TextbookInside:
    """The inside pass in dictionaries, one sentence at a time."""

    def __init__(self, grammar: nltk.PCFG) -> None:
        self.rules = [(p.lhs(), *p.rhs(), p.prob()) for p in grammar.productions() if len(p.rhs()) == 2]
        self.units = [(p.rhs()[0], p.prob()) for p in grammar.productions() if p.lhs() == grammar.start()]
        self.by_sides = defaultdict(list)
        for parent, left, right, p in self.rules:
            self.by_sides[left, right].append((parent, p))
        self.lexical = defaultdict(dict)
        for p in grammar.productions():
            if isinstance(p.rhs()[0], str):
                self.lexical[p.rhs()[0]][p.lhs()] = p.prob()

    def over_rules(self, words: list[str]) -> float:
        """For every span and split, every rule."""
        chart = {(t, t + 1): self.lexical[word] for t, word in enumerate(words)}
        for start, middle, stop in spans_and_splits(len(words)):
            cell = chart.setdefault((start, stop), defaultdict(float))
            lefts, rights = chart[start, middle], chart[middle, stop]
            for parent, left, right, p in self.rules:
                if left in lefts and right in rights:
                    cell[parent] += p * lefts[left] * rights[right]
        return self._root(chart, len(words))

    def over_symbols(self, words: list[str]) -> float:
        """For every span and split, the pairs of symbols that are there."""
        chart = {(t, t + 1): self.lexical[word] for t, word in enumerate(words)}
        for start, middle, stop in spans_and_splits(len(words)):
            cell = chart.setdefault((start, stop), defaultdict(float))
            for left, left_weight in chart[start, middle].items():
                for right, right_weight in chart[middle, stop].items():
                    for parent, p in self.by_sides.get((left, right), ()):
                        cell[parent] += p * left_weight * right_weight
        return self._root(chart, len(words))

    def _root(self, chart: dict[tuple[int, int], dict[nltk.Nonterminal, float]], words: int) -> float:
        return sum(p * chart[0, words].get(root, 0.0) for root, p in self.units)


def spans_and_splits(words: int) -> list[tuple[int, int, int]]:
    return [
        (start, middle, start + length)
        for length in range(2, words + 1)
        for start in range(words - length + 1)
        for middle in range(start + 1, start + length)
    ]


def batched_inside(grammar: BinaryGrammar, ids: Tensor) -> Tensor:
    """The textbook pass in torch: all sentences and all spans of a length at once, all rules."""
    n, words = ids.shape
    chart = {1: grammar.emission.T[ids]}
    for length in range(2, words + 1):
        spans = words - length + 1
        level = torch.zeros(n, spans, grammar.symbols, dtype=torch.float64)
        for left in range(1, length):
            lefts = chart[left][:, :spans].index_select(2, grammar.left)
            rights = chart[length - left][:, left : left + spans].index_select(2, grammar.right)
            level.index_add_(2, grammar.parent, lefts.mul_(rights).mul_(grammar.weight))
        chart[length] = level
    return chart[words][:, 0] @ grammar.initial


def substitutions(ids: Tensor, words: int) -> Tensor:
    """All sentences with one word exchanged, [T * words, T]."""
    length = len(ids)
    batch = ids.repeat(length * words, 1)
    place = torch.arange(length).repeat_interleave(words)
    batch[torch.arange(len(batch)), place] = torch.arange(words).repeat(length)
    return batch


def sampling(language: PCFG, sampler: RecursiveSampler, pairs: int) -> list[Comparison]:
    generator = torch.Generator().manual_seed(0)

    def ours() -> int:
        return len(language.sample(32768, generator))

    def recursion(draw: Callable[[nltk.Nonterminal], list[str]]) -> Callable[[], int]:
        return lambda: len([draw(sampler.start) for _ in range(1000)])

    return [
        compare("sampling, 32768 at once", ours, "recursion, scan", recursion(sampler.by_scan), pairs),
        compare("sampling, 32768 at once", ours, "recursion, choices", recursion(sampler.by_choices), pairs),
    ]


def masked_distributions(language: PCFG, textbook: TextbookInside, pairs: int) -> list[Comparison]:
    """All 16 distributions of 16-word sentences, against 16 x 200 inside passes of substituted ones."""
    drawn = language.sample(20000, torch.Generator().manual_seed(1))
    rows = (drawn.lengths == 16).nonzero()[:1024, 0]
    sentences = drawn[rows]
    batch = substitutions(sentences.ids[0], len(language.vocabulary))
    texts = [[language.vocabulary[w] for w in own] for own in batch.tolist()]
    agree(language, sentences[:1], batch)

    def ours() -> int:
        return len(language.masked_log_probabilities(sentences).exp_())

    def passes(inside: Callable[[list[str]], float], count: int) -> Callable[[], float]:
        chosen = texts[:: len(texts) // count]

        def work() -> float:
            for text in chosen:
                inside(text)
            return len(chosen) / len(texts)

        return work

    def plain_torch() -> float:
        part = batch[: len(batch) // 16]
        for chunk in part.split(50):
            batched_inside(language.form.grammar, chunk)
        return len(part) / len(batch)

    def own_inside() -> int:
        lengths = torch.full((len(batch),), 16)
        plan = language.sentence_plan(16)
        for chunk in torch.split(batch, 512):
            log_weights(language.form.grammar, plan, chunk)
        return len(lengths) // len(batch)

    name = "masked distributions, 16 words"
    return [
        compare(name, ours, "textbook inside, over rules", passes(textbook.over_rules, 8), pairs),
        compare(name, ours, "textbook inside, over symbols", passes(textbook.over_symbols, 32), pairs),
        compare(name, ours, "substitution batched in torch", plain_torch, pairs),
        compare(name, ours, "substitution, our inside pass", own_inside, pairs),
    ]


def agree(language: PCFG, sentence: Sentences, batch: Tensor) -> None:
    """The peer and the library answer the same question."""
    weights = torch.cat([batched_inside(language.form.grammar, chunk) for chunk in batch.split(50)])
    distribution = weights.view(16, -1) / weights.view(16, -1).sum(1, keepdim=True)
    assert (language.masked_log_probabilities(sentence)[0].exp() - distribution).abs().max() < 1e-10


def costs(released: PCFG, pairs: int) -> dict[str, float]:
    """Microseconds a sentence of what has no peer."""
    paper = pcfg(
        random_layered_grammar(
            words=200,
            symbols_per_level=8,
            levels=5,
            rules_per_symbol=10,
            roots=10,
            words_per_preterminal=80,
            seed=0,
        )
    )
    mixed, long = (language.sample(512, torch.Generator().manual_seed(2)) for language in (released, paper))
    work = {
        "masked distributions, released grammar, mixed lengths": lambda: len(
            released.masked_log_probabilities(mixed)
        ),
        "next-word distributions, released grammar, mixed lengths": lambda: len(
            released.next_log_probabilities(mixed)
        ),
        "masked distributions, paper's scale, 32 words": lambda: len(paper.masked_log_probabilities(long)),
        "next-word distributions, paper's scale, 32 words": lambda: len(paper.next_log_probabilities(long)),
        "sampling, released grammar, 256 at once": lambda: len(
            released.sample(256, torch.Generator().manual_seed(0))
        ),
        "sampling, paper's scale, 32768 at once": lambda: len(
            paper.sample(32768, torch.Generator().manual_seed(0))
        ),
    }
    for each in work.values():
        each()
    return {name: statistics.median(per_sentence(each) for _ in range(pairs)) for name, each in work.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--pairs", type=int, default=5, help="interleaved pairs a comparison (default: 5)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    language, theirs = read_pcfg(RELEASED), nltk.PCFG.fromstring(RELEASED.read_text())
    results = sampling(language, RecursiveSampler(theirs), arguments.pairs)
    results += masked_distributions(language, TextbookInside(theirs), arguments.pairs)
    alone = costs(language, arguments.pairs)
    if arguments.json:
        print(json.dumps({"comparisons": [asdict(r) for r in results], "microseconds": alone}))
        return
    print(f"{'':26}{'peer':34}{'us a sentence':>14}{'peer':>16}{'times as fast':>16}")
    for r in results:
        numbers = f"{r.microseconds:14.2f}{r.peer_microseconds:16.1f}{r.times_as_fast:16.0f}"
        print(f"{r.name:26}{r.peer:34}{numbers}")
    for name, microseconds in alone.items():
        print(f"{name:60}{microseconds:14.2f}")


if __name__ == "__main__":
    main()
