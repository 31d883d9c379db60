"""A causal model as a function of those tokens that are words: its sentences and exact masked distributions.

These are found by trying each word at the mask and scoring the suffix,

    Pr(x_t = w | x_{-t}) ∝ Pr(w | x_<t) Π_{s>t} Pr(x_s | x_<t, w, x_{t+1..s-1})

for all K words w. The tokens before t are read once, and their keys and values are shared by the K
substitutes and by all positions; a substitute then costs only its own suffix of T - t tokens (t from 1),
since the last word is scored but never read.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.progress import Progress, silent


@runtime_checkable
class KeyValueCache(Protocol):
    """The keys and values of the tokens that a model has read."""

    def shared_prefix(self, tokens: int) -> "KeyValueCache":
        """The first `tokens` tokens of a cache of one row, as the past of any number of rows.

        Copies nothing, and is not modified by the passes that read it.
        """
        ...


@runtime_checkable
class CausalModel(Protocol):
    """Scores of K words after every token, given the tokens up to and including it."""

    @property
    def device(self) -> torch.device:
        """The device of the model's weights."""
        ...

    def __call__(
        self, tokens: Int[Tensor, "n s"], past: KeyValueCache | None = None
    ) -> tuple[Float[Tensor, "n s K"], KeyValueCache]:
        """Unnormalised log-probabilities of the word after each of these tokens, after those of `past`.

        Also returns the cache of the past and these tokens, for the next pass, except for that of a shared
        prefix.
        """
        ...

    def pass_bytes(self, past: int, tokens: int) -> int:
        """About how many bytes a pass holds per row of `tokens` tokens after a shared prefix of `past`."""
        ...

    def cache_bytes(self, tokens: int) -> int:
        """Memory in bytes of the cache of a row of `tokens` tokens."""
        ...

    def operations(self, past: int, tokens: int) -> float:
        """Floating-point operations of the matrix products of a pass over such a row."""
        ...


def draw_sentences(
    model: CausalModel,
    bos: int,
    tokens: Int[Tensor, " K"],
    uniforms: Sequence[Float[Tensor, " n"]],
    begun: Int[Tensor, "n b"] | None = None,
) -> Int[Tensor, "n T"]:
    """Word numbers of n sentences after `bos`: the words `begun`, if any, then one word per uniform.

    Each word is drawn by inversion of its uniform in [0, 1), so that a sentence depends only on its own words
    and uniforms and on the model's scores; cumulative distributions are in float64. Holds the cache of n
    sentences.
    """
    if begun is None:
        begun = torch.empty(len(uniforms[0]), 0, dtype=torch.int64, device=tokens.device)
    words = list(begun.T)
    read = torch.nn.functional.pad(tokens[begun], (1, 0), value=bos)
    past: KeyValueCache | None = None
    for uniform in uniforms:
        scores, past = model(read, past)
        drawn = inverse_cumulative(scores[:, -1].double().softmax(1), uniform.to(tokens.device))
        words.append(drawn)
        read = tokens[drawn][:, None]
    return torch.stack(words, dim=1)


def inverse_cumulative(
    distributions: Float[Tensor, "n K"], uniforms: Float[Tensor, " n"]
) -> Int[Tensor, " n"]:
    """The first word at which the cumulative distribution exceeds the uniform.

    >>> inverse_cumulative(torch.tensor([[0.25, 0.0, 0.75]] * 2), torch.tensor([0.2, 0.25])).tolist()
    [0, 2]
    """
    cumulative = distributions.cumsum(1)
    target = uniforms.to(distributions)[:, None] * cumulative[:, -1:]
    # A product that rounds up to the total must not run past the last word.
    return torch.searchsorted(cumulative, target, right=True)[:, 0].clamp(max=distributions.shape[1] - 1)


@dataclass(frozen=True)
class SuffixCost:
    """The cost of masked distributions: tokens read, and floating-point operations of their matrix products.

    >>> print(SuffixCost(tokens=552_000, operations=1.2e14))
    552,000 tokens of suffixes, 1.2e+14 operations
    """

    tokens: int
    operations: float

    def __str__(self) -> str:
        return f"{self.tokens:,} tokens of suffixes, {self.operations:.2g} operations"


def suffix_cost(model: CausalModel, words: int, length: int, positions: Int[Tensor, " p"]) -> SuffixCost:
    """The cost of the distributions at `positions` (from 0) of sentences of `length` words."""
    tokens, operations = 0, 0.0
    for position, times in Counter(positions.tolist()).items():
        suffix = length - 1 - position
        tokens += times * words * suffix
        operations += times * words * model.operations(position + 1, suffix)
    return SuffixCost(tokens, operations)


def masked_log_probabilities(
    model: CausalModel,
    bos: int,
    tokens: Int[Tensor, " K"],
    sentence: Int[Tensor, " T"],
    positions: Int[Tensor, " p"],
    memory_bytes: int,
) -> Iterator[Float[Tensor, " K"]]:
    """log Pr(x_t = . | x_{-t}) in nats, float64, for each of `positions` (from 0), one after the other.

    `sentence` has word numbers, `tokens[w]` is the model's token for word w, and every sentence starts after
    `bos`. A pass holds about `memory_bytes`, or one substitute if that needs more.
    """
    read = torch.cat([tokens.new_tensor([bos]), tokens[sentence[:-1]]])
    scores, cache = model(read[None])
    before = scores[0].double().log_softmax(1)
    for position in positions.tolist():
        after = _suffix_log_probabilities(model, cache, tokens, sentence, position, memory_bytes)
        yield (before[position] + after).log_softmax(0)


def rows_at_once(model: CausalModel, past: int, tokens: int, memory_bytes: int) -> int:
    """How many rows of `tokens` tokens after a shared prefix fit in `memory_bytes`; at least one."""
    return max(1, memory_bytes // model.pass_bytes(past, tokens))


def _suffix_log_probabilities(
    model: CausalModel,
    cache: KeyValueCache,
    tokens: Int[Tensor, " K"],
    sentence: Int[Tensor, " T"],
    position: int,
    memory_bytes: int,
) -> Float[Tensor, " K"]:
    """log Pr(what follows `position` | what comes before, w) for every word w."""
    following = sentence[position + 1 :]
    if len(following) == 0:
        return torch.zeros(len(tokens), dtype=torch.float64, device=tokens.device)
    past = cache.shared_prefix(position + 1)
    at_once = rows_at_once(model, position + 1, len(following), memory_bytes)
    found = []
    for substitutes in torch.split(tokens, at_once):
        rest = tokens[following[:-1]].expand(len(substitutes), -1)
        scores, _ = model(torch.cat([substitutes[:, None], rest], dim=1), past)
        found.append(sum_of_log_probabilities(scores, following.expand(len(scores), -1)))
    return torch.cat(found)


def sum_of_log_probabilities(
    scores: Float[Tensor, "n s K"], words: Int[Tensor, "n s"]
) -> Float[Tensor, " n"]:
    """Σ_s log softmax(scores[:, s])[words[:, s]], in float64; overwrites `scores`, most of the memory.

    >>> sum_of_log_probabilities(torch.tensor([[[1.0, 1.0], [0.0, 0.0]]]), torch.tensor([[0, 1]])).exp()
    tensor([0.2500], dtype=torch.float64)
    """
    chosen = scores.gather(2, words[..., None]).double()[..., 0]
    highest = scores.amax(2, keepdim=True)
    normaliser = scores.sub_(highest).exp_().sum(2).double().log() + highest[..., 0].double()
    return (chosen - normaliser).sum(1)


RANKING_SENTENCES = 256


@dataclass(frozen=True)
class TokenRestriction:
    """A language's words as tokens of a model: word w is the token `tokens[w]`, written `words[w]`.

    `bos` is the token that precedes every sentence, and `rule` says in a sentence how the words were chosen.
    Raises BadInput for duplicate tokens or words, and for words that contain white space.

    >>> TokenRestriction((7, 3), ("a", "b"), bos=0, rule="by hand").words
    ('a', 'b')
    """

    tokens: tuple[int, ...]
    words: tuple[str, ...]
    bos: int
    rule: str

    def __post_init__(self) -> None:
        if not self.tokens or len(self.tokens) != len(self.words):
            raise BadInput(
                f"{len(self.tokens)} tokens cannot be {len(self.words)} words; give one word a token"
            )
        for what, items in (("token", self.tokens), ("word", self.words)):
            if len(set(items)) < len(items):
                twice = next(item for number, item in enumerate(items) if item in items[:number])
                raise BadInput(f"the {what} {twice!r} stands twice among the language's words; leave one out")
        if spaced := [word for word in self.words if word.split() != [word]]:
            raise BadInput(f"the word {spaced[0]!r} is empty or contains white space; write it without")


def written_words(pieces: Sequence[str]) -> tuple[str, ...]:
    r"""A tokenizer's tokens, adapted to be a language's words: no white space and no duplicates.

    >>> written_words(["Ġthe", "the", "the", " "])
    ('Ġthe', 'the', 'the#2', '\\x20')
    """
    words: list[str] = []
    seen: set[str] = set()
    for piece in pieces:
        plain = "".join(f"\\x{ord(c):02x}" if c.isspace() else c for c in piece) or "\\empty"
        word, copies = plain, 1
        while word in seen:
            copies += 1
            word = f"{plain}#{copies}"
        seen.add(word)
        words.append(word)
    return tuple(words)


def expected_frequencies(
    model: CausalModel,
    bos: int,
    tokens: Int[Tensor, " v"],
    length: int,
    seed: int,
    memory_bytes: int,
    progress: Progress = silent,
) -> Float[Tensor, " v"]:
    """How often the model generates each of its `tokens` in sentences of `length` words after `bos`, float64.

    This is the mean of its next-word distribution over the positions of RANKING_SENTENCES sentences that the
    model itself generates with these tokens: the expected frequency given the preceding words, which, unlike
    a count, has no ties and leaves no token at 0.
    """
    at_once = max(1, memory_bytes // (model.cache_bytes(length) + 3 * model.pass_bytes(0, length)))
    total = torch.zeros(len(tokens), dtype=torch.float64, device=tokens.device)
    uniforms = torch.rand(
        RANKING_SENTENCES, length, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    done = 0
    for part in torch.split(uniforms, at_once):
        words = draw_sentences(model, bos, tokens, list(part.T))
        read = torch.nn.functional.pad(tokens[words[:, :-1]], (1, 0), value=bos)
        total += model(read)[0].double().softmax(2).sum((0, 1))
        done += len(part)
        progress("ranking tokens", done, RANKING_SENTENCES)
    return total.cpu() / (RANKING_SENTENCES * length)
