"""Hidden Markov models as a language whose distributions are exact."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.inference.forward_backward import forward, viterbi
from isoloss.inference.hidden_markov_chain import HiddenMarkovChain
from isoloss.languages.language import Facts, WrittenLanguage
from isoloss.languages.sampling import PathTables, path_tables, sample_paths
from isoloss.languages.sentences import (
    Sentences,
    checked_distributions,
    refuse_other_lengths,
    refuse_undefined,
    refuse_unknown_words,
)
from isoloss.languages.task import LabelledSentences, Task, most_probable

LABELLED_AT_ONCE = 4096


SENTENCES_AT_ONCE = 512
"""Sentences worked out together: enough for fast products, few enough for the processor's cache."""

_IMPOSSIBLE = "no path of states emits these words"


@dataclass(frozen=True, eq=False)
class HMM:
    """Sentences of `length` words: a state is drawn from `initial`, emits a word, and passes to the next.

    `transition[s, s']` and `emission[s, w]` are float64 distributions. Make one with `hmm`, which checks
    them, `random_hmm` or `from_hmmlearn`. Working memory is bounded by `memory_bytes`, beside the
    results and never below what one sentence needs, 8 `length` (2 S + c) bytes; sentences that need
    logarithms (see `inference.forward_backward`) take up to four times that, and 8 MiB.
    """

    words: tuple[str, ...]
    initial: Float[Tensor, " S"]
    transition: Float[Tensor, "S S"]
    emission: Float[Tensor, "S c"]
    length: int
    memory_bytes: int = 1 << 26

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words, in the order of the emission's columns."""
        return self.words

    @property
    def maximum_length(self) -> int:
        """The number of words of every sentence."""
        return self.length

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the words, the length and all probabilities."""
        content = hashlib.sha256(json.dumps([self.words, self.length]).encode())
        for distribution in (self.initial, self.transition, self.emission):
            content.update(distribution.contiguous().numpy().tobytes())
        return content.hexdigest()

    @cached_property
    def chain(self) -> HiddenMarkovChain:
        """The probabilities in the form used by the dynamic programs."""
        return HiddenMarkovChain(self.initial, self.transition, self.emission)

    @property
    def kind(self) -> str:
        return "hidden Markov model"

    def facts(self) -> Facts:
        connected = f"{(self.transition > 0).sum().item() / self.transition.numel():.0%}"
        return (("states", f"{len(self.initial):,}"), ("possible transitions", connected))

    def file(self) -> WrittenLanguage:
        """See `WritesItself`: JSON, one row of probabilities a line; see `languages.language_file`."""
        return WrittenLanguage("language.json", write_hmm(self))

    def sample(self, n: int, generator: torch.Generator) -> Sentences:
        """Draw n sentences."""
        return self.sample_with_states(n, generator)[0]

    def sample_with_states(self, n: int, generator: torch.Generator) -> tuple[Sentences, Int[Tensor, "n T"]]:
        """The sentences that `sample` draws with the same generator, and the state behind each word."""
        words, states = sample_paths(self._tables, self.length, n, generator)
        return Sentences(words, torch.full((n,), self.length)), states

    def masked_log_probabilities(self, sentences: Sentences) -> Float[Tensor, "n T c"]:
        """log Pr(x_t = w | x_{-t}) in nats, float64; -inf on padding.

        Raises BadInput for an unknown word, a sentence of another length, and where no word fits a position.
        """
        ids = self._whole_sentences(sentences)
        result = torch.empty(*sentences.ids.shape, len(self.words), dtype=torch.float64)
        result[:, self.length :] = -torch.inf
        for rows in self._chunks(len(ids), self.length):
            distribution = forward(self.chain, ids[rows]).smoothed().masked_distribution
            refuse_undefined(distribution, torch.arange(len(ids))[rows], "no word at all fits position {}")
            _logarithms(distribution, out=result[rows, : self.length])
        return result

    def next_log_probabilities(self, sentences: Sentences) -> Float[Tensor, "n T_1 c_1"]:
        """log Pr(next word or the end | the words before), float64; see `Language.next_log_probabilities`.

        Sentences shorter than `length` are treated as prefixes. Raises BadInput for an unknown word, and if
        the first words begin no sentence.
        """
        refuse_unknown_words(sentences, len(self.words))
        n, width = sentences.ids.shape
        result = torch.empty(n, width + 1, len(self.words) + 1, dtype=torch.float64)
        for rows in self._chunks(n, width):
            distribution = self._next_distribution(sentences[rows])
            refuse_undefined(
                distribution, torch.arange(n)[rows], "no sentence of the language goes on at position {}"
            )
            _logarithms(distribution, out=result[rows])
        return result

    def log_probability(self, sentences: Sentences) -> Float[Tensor, " n"]:
        """log Pr(sentence) in nats, float64; -inf for an impossible sentence or another length."""
        refuse_unknown_words(sentences, len(self.words))
        result = torch.full((len(sentences),), -torch.inf, dtype=torch.float64)
        whole = (sentences.lengths == self.length).nonzero()[:, 0]
        for rows in self._chunks(len(whole), self.length):
            passed = forward(self.chain, sentences.ids[whole[rows], : self.length])
            result[whole[rows]] = passed.log_probability
        return result

    def state_posteriors(self, sentences: Sentences) -> Float[Tensor, "n T S"]:
        """Pr(z_t = s | x), float64, of whole sentences; raises BadInput for an impossible one."""
        ids = self._whole_sentences(sentences)
        result = torch.empty(self.length, len(ids), self.chain.states, dtype=torch.float64)
        for rows in self._chunks(len(ids), self.length):
            distribution = forward(self.chain, ids[rows]).posteriors(out=result[:, rows])
            refuse_undefined(distribution, torch.arange(len(ids))[rows], _IMPOSSIBLE)
        return result.transpose(0, 1)

    def best_paths(self, sentences: Sentences) -> Int[Tensor, "n T"]:
        """Each sentence's single most probable path of states (Viterbi).

        This does not give a distribution: masked and next-word distributions sum over all paths, which only
        the forward and backward passes do. Raises BadInput for an impossible sentence.
        """
        ids = self._whole_sentences(sentences)
        result = torch.empty(len(ids), self.length, dtype=torch.int64)
        for rows in self._chunks(len(ids), self.length):
            best = viterbi(self.chain, ids[rows])
            if best.log_probability.isinf().any():
                row = int(torch.arange(len(ids))[rows][best.log_probability.isinf()][0])
                raise BadInput(f"sentence {row + 1}: {_IMPOSSIBLE}; check its words")
            result[rows] = best.states
        return result

    def tasks(self) -> Sequence[Task]:
        """`state-1` to `state-T`: which state emitted each word."""
        return [StateTask(self, position) for position in range(1, self.length + 1)]

    @cached_property
    def _tables(self) -> PathTables:
        return path_tables(self.initial.numpy(), self.transition.numpy(), self.emission.numpy())

    def _next_distribution(self, sentences: Sentences) -> Float[Tensor, "n T_1 c_1"]:
        """Probabilities, not logarithms; NaN where the words before are impossible."""
        lengths = sentences.lengths
        n, width = sentences.ids.shape
        distribution = torch.zeros(n, width + 1, len(self.words) + 1, dtype=torch.float64)
        rows = min(width + 1, self.length)
        # Words after a prefix may be arbitrary: the distributions that depend on them are left out below.
        ids = torch.nn.functional.pad(sentences.ids, (0, 1))[:, : self.length].clamp(min=0)
        passed = forward(self.chain, ids)
        distribution[:, :rows, :-1] = passed.next_distribution()
        distribution[:, self.length :, -1] = 1
        beyond = torch.arange(width + 1) > lengths[:, None]
        distribution[beyond] = 0
        distribution[lengths > self.length, self.length + 1 :] = torch.nan
        distribution[passed.log_probability.isinf() & (lengths >= self.length), self.length :] = torch.nan
        return distribution

    def _whole_sentences(self, sentences: Sentences) -> Int[Tensor, "n T"]:
        refuse_unknown_words(sentences, len(self.words))
        refuse_other_lengths(sentences, self.length)
        return sentences.ids[:, : self.length]

    def _chunks(self, n: int, length: int) -> Iterator[slice]:
        numbers = length * (2 * self.chain.states + len(self.words)) + 1
        at_once = max(1, min(SENTENCES_AT_ONCE, self.memory_bytes // (8 * numbers)))
        return (slice(start, start + at_once) for start in range(0, n, at_once))


def hmm(
    words: Sequence[str],
    initial: Tensor,
    transition: Tensor,
    emission: Tensor,
    length: int,
    source: str = "the HMM",
) -> HMM:
    """The language of an HMM: probabilities [S], [S, S] and [S, c], kept as given, in float64.

    Only rows whose sum deviates from 1 by more than rounding (1e-12) are normalised. Raises BadInput, naming
    `source`, for a table of the wrong shape, a row that does not sum to 1 within 1e-6 or has a number that is
    not a probability, for missing, repeated or empty words or words with spaces, and for a length below 1.

    >>> stay = torch.tensor([[0.75, 0.25], [0.25, 0.75]])
    >>> coins = hmm(["a", "b"], stay.mean(0), stay, torch.eye(2), length=3)
    >>> coins.masked_log_probabilities(Sentences.from_lists([[0, 0, 1]])).exp().round(decimals=3)[0].tolist()
    [[0.75, 0.25], [0.5, 0.5], [0.75, 0.25]]
    """
    _check_words(words, source)
    refuse_no_whole_number(length, source)
    if length < 1:
        raise BadInput(f"{source}: a length of {length} leaves no sentence; give at least 1")
    if initial.ndim != 1:
        raise BadInput(
            f"{source}: initial has shape {tuple(initial.shape)}; give a row of numbers, a state each"
        )
    states = len(initial)
    for name, table, shape in (
        ("transition", transition, (states, states)),
        ("emission", emission, (states, len(words))),
    ):
        if table.shape != shape:
            raise BadInput(
                f"{source}: {name} has shape {tuple(table.shape)}, and {states} states and {len(words)} "
                f"words need {shape}; mend the table"
            )
    return HMM(
        tuple(words),
        checked_distributions(initial[None], f"{source}: initial")[0],
        checked_distributions(transition, f"{source}: transition"),
        checked_distributions(emission, f"{source}: emission"),
        length,
    )


def refuse_no_whole_number(length: object, source: str) -> None:
    """Raise BadInput unless the length is a whole number."""
    if not isinstance(length, int) or isinstance(length, bool):
        raise BadInput(f"{source}: length is not a whole number; give the number of words of a sentence")


def _check_words(words: Sequence[str], source: str) -> None:
    if not words:
        raise BadInput(f"{source}: words is empty; give at least one word")
    seen: set[str] = set()
    for word in words:
        if not isinstance(word, str) or word.split() != [word]:
            raise BadInput(f"{source}: {word!r} is no word, which has a letter or more and no blanks")
        if word in seen:
            raise BadInput(f"{source}: the word {word!r} stands twice in words; give each once")
        seen.add(word)


def _logarithms(distribution: Float[Tensor, "n T c"], out: Float[Tensor, "n T c"]) -> None:
    """log into `out`, overwriting `distribution`; zeros, which slow torch down severalfold, are set aside."""
    impossible = distribution == 0
    torch.log(distribution.masked_fill_(impossible, 1), out=out)
    out.masked_fill_(impossible, -torch.inf)


@dataclass(frozen=True, eq=False)
class StateTask:
    """y = argmax_s Pr(z_k = s | x), k = `position` from 1; ties go to the first state.

    The posterior returned with the labels gives the ceiling: the mean of its largest probability is the best
    possible accuracy, from the sentences alone, for the state that actually emitted the word.
    """

    language: "HMM"
    position: int

    @property
    def name(self) -> str:
        """`state-6` for the state of the sixth word."""
        return f"state-{self.position}"

    @property
    def classes(self) -> tuple[str, ...]:
        """The states by number, from 1."""
        return tuple(str(state) for state in range(1, len(self.language.initial) + 1))

    def sample(self, n: int, generator: torch.Generator) -> LabelledSentences:
        """Draw n sentences, and label them with the exact posterior."""
        return self.label(self.language.sample(n, generator))

    def label(self, sentences: Sentences) -> LabelledSentences:
        """The posterior of each sentence's k-th state, and its argmax; BadInput for an impossible one."""
        posterior = torch.empty(len(sentences), len(self.classes), dtype=torch.float64)
        for start in range(0, len(sentences), LABELLED_AT_ONCE):
            rows = slice(start, start + LABELLED_AT_ONCE)
            posterior[rows] = self.language.state_posteriors(sentences[rows])[:, self.position - 1]
        return LabelledSentences(sentences, most_probable(posterior), posterior)


def write_hmm(language: HMM) -> str:
    """Write an HMM as JSON, one row of probabilities per line, so that reading it gives an equal HMM.

    >>> from isoloss.languages.language_file import parse_hmm
    >>> text = '{"words": ["a"], "initial": [1], "transition": [[1]], "emission": [[1]], "length": 2}'
    >>> print(write_hmm(parse_hmm(text)), end="")
    {"words": ["a"],
    "initial": [1.0],
    "transition": [
    [1.0]],
    "emission": [
    [1.0]],
    "length": 2}
    """
    words = json.dumps(language.words, ensure_ascii=False)
    transition, emission = (
        ",\n".join(json.dumps(row) for row in table.tolist())
        for table in (language.transition, language.emission)
    )
    initial = json.dumps(language.initial.tolist())
    return (
        f'{{"words": {words},\n"initial": {initial},\n"transition": [\n{transition}],\n'
        f'"emission": [\n{emission}],\n"length": {language.length}}}\n'
    )
