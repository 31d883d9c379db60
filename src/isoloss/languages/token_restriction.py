"""The choice of a model's tokens as the words of a language."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.inference.causal_model import CausalModel, draw_sentences
from isoloss.progress import Progress, silent

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
