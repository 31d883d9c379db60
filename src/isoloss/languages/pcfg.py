"""Probabilistic context-free grammars as a language whose distributions are exact."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.inference.chart_plan import ChartPlan, prefix_plan, sentence_plan
from isoloss.inference.inside_outside import log_weights, masked_distribution
from isoloss.inference.left_to_right import (
    LeftCorners,
    bounded_left_corners,
    free_left_corners,
    next_distribution,
)
from isoloss.languages.constituent_task import constituent_task, constituent_tasks
from isoloss.languages.derivations import check_some_sentence, longest_sentence
from isoloss.languages.grammar import Grammar, check_well_formed
from isoloss.languages.language import Derivation, Facts, Language, WrittenLanguage
from isoloss.languages.normal_form import NormalForm, normal_form
from isoloss.languages.notation import read_grammar, write_grammar
from isoloss.languages.rule_tables import RuleTables, rule_tables
from isoloss.languages.sampling import CHUNK, Derivations, derivation_trees, sample_sentences, sentence_keys
from isoloss.languages.sentences import Sentences, refuse_undefined, refuse_unknown_words
from isoloss.languages.task import Task
from isoloss.languages.termination import check_terminates, proper_grammar

SMALLEST_SHARE = 1e-5
"""Sampling rejects longer sentences, so at least this share must be within the maximum length."""


@dataclass(frozen=True, eq=False)
class PCFG:
    """A grammar ready for use; make one with `pcfg` or `read_pcfg`.

    `grammar` is as written, `proper` has the probabilities with which sentences are drawn, `form` its
    tensors. Sentences have at most `longest` words, or are unbounded if it is None; `log_share` is the
    log-probability that a sentence of the grammar is that short, if longer ones are excluded, otherwise 0.
    `log_z` is then that of the weight of all sentences as written, which is not quite 0 where written
    probabilities do not quite sum to 1. Working memory is bounded by `memory_bytes`, beside the results and
    never below what one sentence needs.
    """

    grammar: Grammar
    proper: Grammar
    form: NormalForm
    tables: RuleTables
    corners: LeftCorners
    longest: int | None
    log_share: float
    log_z: float
    memory_bytes: int = 1 << 26
    _plans: dict[tuple[object, ...], ChartPlan] = field(default_factory=dict, repr=False)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words, in the order of their first appearance in the grammar."""
        return self.grammar.words

    @property
    def maximum_length(self) -> int:
        """The maximum number of words of a sentence; raises BadInput if it is unbounded."""
        if self.longest is None:
            raise BadInput(
                f"{self.grammar.source}: the grammar is recursive and its sentences have no longest; "
                "give a maximum length (--maximum-length, or `maximum_length` in Python)"
            )
        return self.longest

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the grammar as written by `write_grammar`, and of the maximum length, if any."""
        cut = "" if self.corners.maximum is None else f"%maximum {self.corners.maximum}\n"
        return hashlib.sha256((write_grammar(self.grammar) + cut).encode()).hexdigest()

    @property
    def kind(self) -> str:
        return "probabilistic grammar"

    def facts(self) -> Facts:
        symbols, rules = len(self.grammar.symbols), len(self.grammar.rules)
        return (("symbols", f"{symbols:,}"), ("rules", f"{rules:,}"))

    def file(self) -> WrittenLanguage:
        """See `WritesItself`: the grammar as written, in NLTK's notation."""
        return WrittenLanguage("language.pcfg", write_grammar(self.grammar), self.corners.maximum)

    def sample(self, n: int, generator: torch.Generator) -> Sentences:
        """Draw n sentences, padded to `maximum_length`, or to the longest drawn if there is none."""
        return sample_sentences(self.tables, self.longest, n, generator)

    def sample_derivations(self, n: int, generator: torch.Generator) -> list[Derivation]:
        """The derivation trees of the sentences that `sample` draws with the same generator."""
        keys = sentence_keys(n, generator)
        trees: list[Derivation] = []
        for start in range(0, n, CHUNK):
            derivations = Derivations(self.tables, keys[start : start + CHUNK], self.longest)
            trees += derivation_trees(self.proper, derivations)
        return trees

    def masked_log_probabilities(self, sentences: Sentences) -> Float[Tensor, "n T c"]:
        """log Pr(x_t = w | x_{-t}, length) in nats, float64; -inf on padding.

        Raises BadInput for an unknown word, and if no word at all fits a position.
        """
        refuse_unknown_words(sentences, len(self.vocabulary))
        n, width = sentences.ids.shape
        result = torch.full((n, width, len(self.vocabulary)), -torch.inf, dtype=torch.float64)
        for length, rows in _by_length(sentences):
            if not self._has_length(length):
                raise BadInput(f"no sentence of the language has {length} words; check the sentence")
            plan = self.sentence_plan(length)
            numbers = plan.numbers_per_sentence + length * (
                self.form.grammar.symbols + 2 * len(self.vocabulary)
            )
            for chunk in self._chunks(rows, numbers):
                distribution = masked_distribution(self.form.grammar, plan, sentences.ids[chunk, :length])
                refuse_undefined(distribution, chunk, "no word at all fits position {}")
                result[chunk, :length] = distribution.log_()
        return result

    def next_log_probabilities(self, sentences: Sentences) -> Float[Tensor, "n T_1 c_1"]:
        """log Pr(next word or the end | the words before), float64; see `Language.next_log_probabilities`.

        Raises BadInput for an unknown word, and where the first words begin no sentence.
        """
        refuse_unknown_words(sentences, len(self.vocabulary))
        n, width = sentences.ids.shape
        result = torch.full((n, width + 1, len(self.vocabulary) + 1), -torch.inf, dtype=torch.float64)
        for length, rows in _by_length(sentences):
            plan = self._prefix_plan(length)
            rules = len(self.corners.closure) * (
                len(self.form.grammar.parent) + 3 * self.form.grammar.symbols
            )
            numbers = plan.numbers_per_sentence + length * (rules + 2 * len(self.vocabulary))
            for chunk in self._chunks(rows, numbers):
                distribution = next_distribution(
                    self.form.grammar, self.corners, plan, sentences.ids[chunk, :length]
                )
                refuse_undefined(distribution, chunk, "no sentence of the language goes on at position {}")
                result[chunk, : length + 1] = distribution.log_()
        return result

    def log_probability(self, sentences: Sentences) -> Float[Tensor, " n"]:
        """log of the sum over derivations of the products of the probabilities as written, in nats.

        If longer sentences are excluded, it is conditional on the length being allowed, i.e. the probability
        of being drawn. -inf outside the language.
        """
        refuse_unknown_words(sentences, len(self.vocabulary))
        result = torch.full((len(sentences),), -torch.inf, dtype=torch.float64)
        for length, rows in _by_length(sentences):
            if self._has_length(length):
                plan = self.sentence_plan(length)
                numbers = plan.numbers_per_sentence + length * self.form.grammar.symbols
                for chunk in self._chunks(rows, numbers):
                    ids = sentences.ids[chunk, :length]
                    result[chunk] = log_weights(self.form.grammar, plan, ids) + self.log_z - self.log_share
        return result

    def tasks(self) -> Sequence[Task]:
        """The root task and the prefix constituent tasks, longest prefix first."""
        return constituent_tasks(self)

    def sentence_plan(self, length: int, roots: Bool[Tensor, " S"] | None = None) -> ChartPlan:
        """The chart plan of `length` words below one of `roots`, those of whole sentences by default."""
        roots = self.form.grammar.initial > 0 if roots is None else roots
        key = ("sentence", length, *roots.tolist())
        if key not in self._plans:
            self._plans[key] = sentence_plan(self.form.grammar, length, roots)
        return self._plans[key]

    def _has_length(self, length: int) -> bool:
        allowed = self.longest is None or length <= self.longest
        return allowed and length in self.sentence_plan(length).levels

    def _prefix_plan(self, length: int) -> ChartPlan:
        if ("prefix", length) not in self._plans:
            self._plans["prefix", length] = prefix_plan(self.form.grammar, length)
        return self._plans["prefix", length]

    def _chunks(self, rows: Tensor, numbers_per_sentence: int) -> tuple[Tensor, ...]:
        return torch.split(rows, max(1, self.memory_bytes // (8 * numbers_per_sentence)))


def pcfg(grammar: Grammar, maximum_length: int | None = None) -> PCFG:
    """The language of `grammar`, or of its sentences of at most `maximum_length` words.

    Raises BadInput for a grammar that is not well-formed, and, without a maximum length, for one whose
    sentences have no finite expected length.

    >>> from isoloss.languages.notation import parse_grammar
    >>> language = pcfg(parse_grammar("S -> 'a' 'b' [0.5] | 'a' 'a' [0.25] | 'c' [0.25]"))
    >>> language.masked_log_probabilities(Sentences.from_lists([[0, 1]])).exp().round(decimals=3)[0].tolist()
    [[1.0, 0.0, 0.0], [0.333, 0.667, 0.0]]
    """
    check_well_formed(grammar)
    if maximum_length is None:
        check_terminates(grammar)
    elif maximum_length < 1:
        raise BadInput(f"a maximum length of {maximum_length} leaves no sentence; give at least 1")
    check_some_sentence(grammar)
    longest = longest_sentence(grammar)
    proper, z = proper_grammar(grammar)
    form = normal_form(proper)
    if maximum_length is None or (longest is not None and longest <= maximum_length):
        log_z, log_share, corners = math.log(z), 0.0, free_left_corners(form.grammar)
    else:
        longest, log_z = maximum_length, 0.0
        lengths = form.grammar.length_weights(longest)
        log_share = _log_share(float((lengths @ form.grammar.initial).sum()), longest, grammar)
        corners = bounded_left_corners(form.grammar, longest)
    return PCFG(grammar, proper, form, rule_tables(proper), corners, longest, log_share, log_z)


def read_pcfg(path: Path | str, maximum_length: int | None = None) -> PCFG:
    """The language of a grammar file in NLTK's notation; see `read_grammar` and `pcfg`."""
    return pcfg(read_grammar(Path(path)), maximum_length)


def _log_share(share: float, maximum: int, grammar: Grammar) -> float:
    if share < SMALLEST_SHARE:
        raise BadInput(
            f"{grammar.source}: only {share:.2g} of its sentences have at most {maximum} words; "
            "give a larger maximum length"
        )
    return math.log(share)


def _by_length(sentences: Sentences) -> Iterator[tuple[int, Tensor]]:
    for length in sorted(set(sentences.lengths.tolist())):
        yield length, (sentences.lengths == length).nonzero()[:, 0]


def named_task(language: Language, name: str) -> Task:
    """The language's task of that name. Raises BadInput when it has none.

    A grammar's tasks include rare ones, and those of the authors' labels; see `constituent_task`.
    """
    if isinstance(language, PCFG):
        return constituent_task(language, name)
    tasks = {task.name: task for task in language.tasks()}
    if name not in tasks:
        raise BadInput(f"the language has no task {name!r}; choose {', '.join(tasks) or 'another language'}")
    return tasks[name]
