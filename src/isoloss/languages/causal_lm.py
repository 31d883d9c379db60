"""A pre-trained autoregressive model, restricted to some of its tokens, as an exactly known language."""

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.inference.causal_model import (
    CausalModel,
    SuffixCost,
    TokenRestriction,
    draw_sentences,
    inverse_cumulative,
    masked_log_probabilities,
    rows_at_once,
    suffix_cost,
    sum_of_log_probabilities,
)
from isoloss.languages.language import Described, Facts
from isoloss.languages.rule_tables import Bits
from isoloss.languages.sampling import sentence_keys
from isoloss.languages.sentences import Sentences, refuse_other_lengths, refuse_unknown_words
from isoloss.languages.task import Task, opening_tasks
from isoloss.progress import Progress, silent
from isoloss.seeds import next_shares

MEMORY_BYTES = 1 << 26


@dataclass(frozen=True, eq=False)
class CausalLM:
    """Sentences of `length` words after bos, drawn from the model's distribution restricted to K tokens.

    At every step, the model's probabilities are restricted to `restriction.tokens` and renormalised (paper
    A.1); `model` scores those tokens, in that order. All sentences have `length` words, so that the end is
    certain after the last word and impossible before. `weights` is a digest of the model. Create one with
    `models.causal_language`. Working memory is about `memory_bytes` beside the results, but never below what
    one sentence needs.

    Distributions are sums of float64 logarithms of the model's scores: they are exact for the model in
    its own precision, and agree with full forward passes to 1e-5 in float32 and 1e-10 in float64.
    """

    model: CausalModel
    restriction: TokenRestriction
    length: int
    weights: str
    memory_bytes: int = MEMORY_BYTES

    def __post_init__(self) -> None:
        if self.length < 1:
            raise BadInput(f"sentences of {self.length} words say nothing; give at least 1")

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The K words, in the restriction's order."""
        return self.restriction.words

    @property
    def maximum_length(self) -> int:
        """The number of words of every sentence."""
        return self.length

    @property
    def digest(self) -> str:
        """SHA-256 of the model's weights, its tokens and words, and the length."""
        r = self.restriction
        content = json.dumps([self.weights, r.tokens, r.words, r.bos, self.length])
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def kind(self) -> str:
        return "causal language model"

    def facts(self) -> Facts:
        """See `Described`: those of the model, the digest of its weights, and how words were chosen."""
        of_model = (
            (*self.model.facts(), ("weights", self.weights)) if isinstance(self.model, Described) else ()
        )
        return (*of_model, ("words chosen by", self.restriction.rule))

    def sample(self, n: int, generator: torch.Generator) -> Sentences:
        """Draw n sentences.

        Each sentence has its own random numbers, whatever n and `memory_bytes`. Its words are a function of
        these and of the model's scores, whose last bits may depend on how many sentences are read at once:
        this can change about one word in a million in float32, and in practice none in float64.
        """
        return self.sample_opening_with(torch.arange(len(self.vocabulary)), n, generator)

    def sample_opening_with(
        self, openings: Int[Tensor, " k"], n: int, generator: torch.Generator
    ) -> Sentences:
        """Draw n sentences given that their first word is one of `openings`; see `sample`."""
        keys = sentence_keys(n, generator)
        prior = self.first_word_log_probabilities()[openings].softmax(0)
        bytes_a_row = self.model.cache_bytes(self.length) + self.model.pass_bytes(self.length, 1)
        at_once = max(1, self.memory_bytes // bytes_a_row)
        ids = torch.empty(n, self.length, dtype=torch.int64)
        for start in range(0, n, at_once):
            first, *others = _uniforms(keys[start : start + at_once], self.length)
            begun = openings[inverse_cumulative(prior.expand(len(first), -1), first)][:, None]
            drawn = draw_sentences(
                self.model, self.restriction.bos, self._tokens, others, begun.to(self.model.device)
            )
            ids[start : start + at_once] = drawn.cpu()
        return Sentences(ids, torch.full((n,), self.length))

    def first_word_log_probabilities(self) -> Float[Tensor, " K"]:
        """log Pr(x_1 = w) in nats, float64."""
        bos = torch.tensor([[self.restriction.bos]], device=self.model.device)
        return self.model(bos)[0][0, 0].double().log_softmax(0).cpu()

    def masked_log_probabilities(
        self, sentences: Sentences, progress: Progress = silent
    ) -> Float[Tensor, "n T c"]:
        """log Pr(x_t = w | x_{-t}) in nats, float64, for every position.

        Costly: see `masked_log_probabilities_at`. Raises BadInput for an unknown word and for a sentence of
        another length.
        """
        rows, positions = sentences.real.nonzero(as_tuple=True)
        result = torch.full((*sentences.ids.shape, len(self.vocabulary)), -torch.inf, dtype=torch.float64)
        result[rows, positions] = self.masked_log_probabilities_at(sentences, rows, positions, progress)
        return result

    def masked_log_probabilities_at(
        self,
        sentences: Sentences,
        rows: Int[Tensor, " m"],
        positions: Int[Tensor, " m"],
        progress: Progress = silent,
    ) -> Float[Tensor, "m c"]:
        """log Pr(x_t = w | x_{-t}) for t = positions[j] (from 0) of sentence rows[j] alone, float64.

        The distribution at position t needs K (T - 1 - t) tokens to be read: 552,000 for all positions of a
        sentence at the paper's scale. `progress` receives the total cost before anything is computed. Raises
        BadInput for an unknown word, a sentence of another length, and a position out of range.
        """
        self._check(sentences)
        refuse_other_lengths(sentences, self.length)
        if len(positions) and not 0 <= int(positions.min()) <= int(positions.max()) < self.length:
            raise BadInput(
                f"positions count from 0 to {self.length - 1}, not {int(positions.min())} to "
                f"{int(positions.max())}; ask for those of words"
            )
        result = torch.empty(len(rows), len(self.vocabulary), dtype=torch.float64)
        cost, done = self.distribution_cost(positions), 0.0
        progress("exact distributions", done, cost.operations, str(cost))
        for row in sorted(set(rows.tolist())):
            asked = (rows == row).nonzero()[:, 0]
            distributions = masked_log_probabilities(
                self.model,
                self.restriction.bos,
                self._tokens,
                sentences.ids[row, : self.length].to(self.model.device),
                positions[asked],
                self.memory_bytes,
            )
            for place, distribution in zip(asked.tolist(), distributions, strict=True):
                result[place] = distribution.cpu()
                done += self.distribution_cost(positions[place : place + 1]).operations
                progress("exact distributions", done, cost.operations, str(cost))
        return result

    def distribution_cost(self, positions: Int[Tensor, " m"]) -> SuffixCost:
        """The cost of computing masked distributions at these positions (from 0), for any sentences."""
        return suffix_cost(self.model, len(self.vocabulary), self.length, positions)

    def seconds(self, cost: SuffixCost) -> float:
        """An estimate of the time this takes here, from one timed pass of the size of those to be made."""
        middle = self.length // 2
        suffix = max(1, self.length - 1 - middle)
        rows = min(len(self.vocabulary), rows_at_once(self.model, middle + 1, suffix, self.memory_bytes))
        read = self._tokens[torch.arange(rows * suffix, device=self.model.device) % len(self.vocabulary)]
        _, cache = self.model(self._tokens.new_full((1, middle + 1), self.restriction.bos))
        past = cache.shared_prefix(middle + 1)
        start = time.perf_counter()
        self.model(read.view(rows, suffix), past)[0].sum().item()
        elapsed = time.perf_counter() - start
        return cost.operations * elapsed / (rows * self.model.operations(middle + 1, suffix))

    def next_log_probabilities(self, sentences: Sentences) -> Float[Tensor, "n T_1 c_1"]:
        """log Pr(next word or the end | the words before), float64; see `Language.next_log_probabilities`.

        A shorter sentence is treated as a prefix. Raises BadInput for an unknown word and for a longer
        sentence.
        """
        self._check(sentences)
        n, width = sentences.ids.shape
        result = torch.full((n, width + 1, len(self.vocabulary) + 1), -torch.inf, dtype=torch.float64)
        for chunk in self._chunks(n):
            distributions = self._next_word_distributions(sentences.ids[chunk, : self.length - 1])
            result[chunk, : distributions.shape[1], :-1] = distributions
        result[torch.arange(width + 1) > sentences.lengths[:, None]] = -torch.inf
        whole = sentences.lengths == self.length
        if whole.any():
            result[whole, self.length, -1] = 0.0
        return result

    def log_probability(self, sentences: Sentences) -> Float[Tensor, " n"]:
        """log Pr(sentence) in nats, float64; -inf for a sentence of another length."""
        refuse_unknown_words(sentences, len(self.vocabulary))
        result = torch.full((len(sentences),), -torch.inf, dtype=torch.float64)
        whole = (sentences.lengths == self.length).nonzero()[:, 0]
        for chunk in self._chunks(len(whole)):
            ids = sentences.ids[whole[chunk], : self.length].to(self.model.device)
            result[whole[chunk]] = sum_of_log_probabilities(self._scores(ids[:, :-1]), ids).cpu()
        return result

    def tasks(self) -> Sequence[Task]:
        """`opening-2` and `opening-4`: which of that many words is the unseen first word."""
        return opening_tasks(self)

    @property
    def _tokens(self) -> Int[Tensor, " K"]:
        return torch.tensor(self.restriction.tokens, device=self.model.device)

    def _next_word_distributions(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, "n T_1 K"]:
        """log Pr(x_{t+1} | x_1..x_t) for t = 0..T; after a sentence's end, given the padding."""
        return self._scores(ids.clamp(min=0).to(self.model.device)).double().log_softmax(2).cpu()

    def _scores(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, "n T_1 K"]:
        """The model's scores of the word after each prefix, starting with the empty one."""
        read = torch.nn.functional.pad(self._tokens[ids], (1, 0), value=self.restriction.bos)
        return self.model(read)[0]

    def _chunks(self, n: int) -> Iterator[slice]:
        # Three times for the scores' float64 logarithms.
        bytes_a_row = 3 * self.model.pass_bytes(0, self.length) + self.model.cache_bytes(self.length)
        at_once = max(1, self.memory_bytes // bytes_a_row)
        for start in range(0, n, at_once):
            yield slice(start, start + at_once)

    def _check(self, sentences: Sentences) -> None:
        if len(sentences) and int(sentences.lengths.max()) > self.length:
            row = int(sentences.lengths.argmax())
            raise BadInput(
                f"sentence {row + 1} has {int(sentences.lengths[row])} words, but those of the language have "
                f"{self.length}; shorten it"
            )
        refuse_unknown_words(sentences, len(self.vocabulary))


def _uniforms(keys: Bits, count: int) -> list[Tensor]:
    """The first `count` numbers in [0, 1) of every key's stream, float64."""
    stream, found = keys.copy(), []
    for _ in range(count):
        found.append(torch.from_numpy(next_shares(stream)))
    return found
