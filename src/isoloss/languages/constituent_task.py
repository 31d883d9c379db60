"""Prefix constituent tasks: which symbol spans the first L words of a sentence (Section A.1)."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.inference.inside_outside import inside, word_potentials
from isoloss.inference.left_to_right import leftmost_weights
from isoloss.languages.rule_tables import Bits, Numbers
from isoloss.languages.sampling import CHUNK, Derivations, padded_sentences, sentence_keys
from isoloss.languages.sentences import Sentences
from isoloss.languages.task import LabelledSentences, most_probable

if TYPE_CHECKING:  # which has these tasks
    from isoloss.languages.pcfg import PCFG

SMALLEST_SHARE = 0.25
"""A prefix length is a task when at least this share of sentences has a constituent of that length."""
RAREST_SHARE = 0.001
"""Asked for by name it is one down to this share: a thousand sentences are drawn for one that counts."""


@dataclass(frozen=True, eq=False)
class ConstituentTask:
    """y = argmax_s Pr(s spans x_1..x_L | x_1..x_L) ∝ prior[s] inside(s, x_1..x_L); ties go to the first.

    `length` is L, or None for the whole sentence of any length. Sentences whose first L words are not a
    constituent of the derivation from which they were drawn are excluded. `prior[s]` is the weight of symbol
    s of the language; the classes are `symbols`, which include all symbols with nonzero weight.
    """

    name: str
    language: "PCFG"
    length: int | None
    prior: Float[Tensor, " S"]
    symbols: Int[Tensor, " k"]

    @property
    def classes(self) -> tuple[str, ...]:
        """The symbols' names."""
        return tuple(self.language.form.names[s] for s in self.symbols.tolist())

    def sample(self, n: int, generator: torch.Generator) -> LabelledSentences:
        """Draw n sentences that have the constituent, and label them with the exact posterior."""
        chunks, found = [], 0
        while found < n:
            keys = sentence_keys(min(CHUNK, 2 * (n - found) + 64), generator)
            words, lengths = self._with_constituent(keys)
            chunks.append((words[:, : n - found], lengths[: n - found]))
            found += len(chunks[-1][1])
        return self.label(padded_sentences(chunks, self.language.longest))

    def label(self, sentences: Sentences) -> LabelledSentences:
        """The posterior over classes of each sentence, and its argmax.

        Raises BadInput for a sentence with fewer words than required, or whose first words no class spans.
        """
        posterior = torch.zeros(len(sentences), len(self.symbols), dtype=torch.float64)
        spans = sentences.lengths if self.length is None else torch.full_like(sentences.lengths, self.length)
        self._refuse(sentences.lengths < spans)
        for span in sorted(set(spans.tolist())):
            for rows in (spans == span).nonzero()[:, 0].split(256):
                posterior[rows] = self._posterior(sentences.ids[rows, :span])
        self._refuse(posterior.isnan().any(1))
        return LabelledSentences(sentences, most_probable(posterior), posterior)

    def _refuse(self, without: Bool[Tensor, " n"]) -> None:
        if without.any():
            row = int(without.nonzero()[0])
            raise BadInput(f"sentence {row + 1} has no constituent that {self.name} asks for; leave it out")

    def _posterior(self, ids: Int[Tensor, "n L"]) -> Float[Tensor, "n k"]:
        grammar = self.language.form.grammar
        plan = self.language.sentence_plan(ids.shape[1], self.prior > 0)
        weights = torch.zeros(grammar.symbols, len(ids), dtype=torch.float64)
        if ids.shape[1] in plan.levels:
            chart = inside(plan, word_potentials(grammar.emission, ids))
            weights[plan.levels[ids.shape[1]].symbols] = chart.whole(ids.shape[1])
        joint = (weights * self.prior[:, None])[self.symbols].T
        return joint / joint.sum(1, keepdim=True)

    def _with_constituent(self, keys: Bits) -> tuple[Numbers, Numbers]:
        """Words [T, n] and lengths of those sentences that have the constituent."""
        derivations = Derivations(self.language.tables, keys, self.language.longest)
        if self.length is None:
            for _ in derivations:
                pass
            return self.language.tables.word[derivations.word_rules()], derivations.lengths
        complete = leftmost_constituents(derivations, self.language.maximum_length)[:, self.length]
        words = self.language.tables.word[derivations.word_rules()]
        return words[:, complete], derivations.lengths[complete]


def root_task(language: "PCFG") -> ConstituentTask:
    """The root of the whole sentence; named `prefix-L` if every sentence has L words, otherwise `root`."""
    derivable = language.form.grammar.derivable_lengths(language.maximum_length)
    possible = (derivable & (language.form.grammar.initial > 0)).any(1).nonzero()[:, 0].tolist()
    name = f"prefix-{possible[0]}" if len(possible) == 1 else "root"
    initial = language.form.grammar.initial
    return ConstituentTask(name, language, None, initial, initial.nonzero()[:, 0])


def prefix_task(language: "PCFG", length: int) -> ConstituentTask:
    """The symbol that spans the first `length` words, with how often it starts a sentence as its prior.

    Raises BadInput if no symbol spans that many words at the start of a sentence, or so rarely that hardly
    any sentence would be found, and for fewer than two words, which are no constituent.
    """
    if length < 2:
        raise BadInput(f"a constituent has at least 2 words, not {length}; choose another length")
    (task,) = _prefix_tasks(language, [length])
    if not task.prior.any():
        raise BadInput(f"no symbol spans the first {length} words of any sentence; choose another length")
    lengths = language.form.grammar.length_weights(language.maximum_length)
    if (share := _share(task, lengths)) < RAREST_SHARE:
        raise BadInput(
            f"a symbol spans the first {length} words of {share:.1g} of all sentences, too few to draw; "
            "choose another length"
        )
    return task


def likelihood_task(language: "PCFG", length: int) -> ConstituentTask:
    """As `prefix_task`, but without the prior: labels by the likelihood alone, as in the authors' code."""
    task = prefix_task(language, length)
    return replace(task, name=f"{task.name}-likelihood", prior=(task.prior > 0).double())


def of_all_symbols(task: ConstituentTask) -> ConstituentTask:
    """The same with a class for every symbol below the start, as the paper's 50-way tasks have.

    Labels and posteriors are unchanged, since symbols that cannot occur there have probability zero. Only the
    outputs of a head for the task change.
    """
    return replace(task, name=f"{task.name}-of-all", symbols=task.language.form.written.nonzero()[:, 0])


def constituent_tasks(language: "PCFG") -> Sequence[ConstituentTask]:
    """The root task and the prefix tasks that have at least two classes and are not too rare."""
    lengths = language.form.grammar.length_weights(language.maximum_length)
    prefixes = _prefix_tasks(language, range(language.maximum_length - 1, 1, -1))
    tasks = [root_task(language), *(task for task in prefixes if _share(task, lengths) >= SMALLEST_SHARE)]
    return [task for task in tasks if len(task.classes) > 1]


def constituent_task(language: "PCFG", name: str) -> ConstituentTask:
    """One of `constituent_tasks` by its name, or `prefix-L` for an L too rare to be among them.

    `prefix-L-likelihood` is labelled by the likelihood alone; with the suffix `-of-all`, any of them has
    `of_all_symbols` as classes. Raises BadInput if the language has no such task, or hardly any sentence for
    it.
    """
    if name.endswith("-of-all"):
        return of_all_symbols(constituent_task(language, name.removesuffix("-of-all")))
    usual = {task.name: task for task in constituent_tasks(language)}
    if name in usual:
        return usual[name]
    written = re.fullmatch(r"prefix-([1-9]\d{0,5})(-likelihood)?", name)
    length = int(written[1]) if written else 0
    if (
        written
        and 2 <= length <= language.maximum_length
        and _prefix_tasks(language, [length])[0].prior.any()
    ):
        return (likelihood_task if written[2] else prefix_task)(language, length)
    listed = "".join(f"{each}, or " for each in [", ".join(usual)] if each)
    raise BadInput(
        f"the language has no task {name!r}; choose {listed}prefix-L or prefix-L-likelihood for a number of "
        "words L that a symbol spans; -of-all after any makes every symbol a class"
    )


def _prefix_tasks(language: "PCFG", lengths: Sequence[int]) -> list[ConstituentTask]:
    """The task of each length, whether or not a symbol spans so many words at the start of a sentence."""
    grammar = language.form.grammar
    spanning = grammar.derivable_lengths(max(lengths, default=0)) & language.form.written
    priors = [leftmost_weights(grammar, language.corners, length) * spanning[length] for length in lengths]
    return [
        ConstituentTask(f"prefix-{length}", language, length, prior, prior.nonzero()[:, 0])
        for length, prior in zip(lengths, priors, strict=True)
    ]


def _share(task: ConstituentTask, lengths: Float[Tensor, "L S"]) -> float:
    """The mean number of symbols that span a sentence's first words: an upper bound on the share with any."""
    return float(task.prior @ lengths[task.length]) / math.exp(task.language.log_share)


def leftmost_constituents(derivations: Derivations, maximum: int) -> NDArray[np.bool_]:
    """Draw `derivations`; entry [i, L] says whether one symbol spans words 1..L of sentence i, L > 1.

    A symbol that starts the sentence is identified by the number of items waiting behind it; it is complete
    when, for the first time since, nothing continues and only those items wait.
    """
    n = len(derivations.keys)
    complete = np.zeros((n, maximum + 1), bool)
    started = np.zeros((n, maximum + 2), bool)
    started[:, 1] = True
    change, following = derivations.tables.waiting_change, derivations.tables.next_item
    for step in derivations:
        complete[step.rows[step.restarted]] = False
        started[step.rows[step.restarted]] = False
        started[step.rows[step.restarted], 1] = True
        going = np.ones(len(step.rows), bool)
        going[step.restarted] = False
        before = step.waiting - change[step.rules]
        begins = np.flatnonzero(going & (step.words == 0))
        started[step.rows[begins], step.waiting[begins]] = True
        ends = np.flatnonzero(going & (following[step.rules] < 0))
        ends = ends[started[step.rows[ends], before[ends]]]
        complete[step.rows[ends], step.words[ends]] = True
        started[step.rows[ends], before[ends]] = False
    return complete
