"""`isoloss sample`: sentences of a language, or a grammar's derivation trees."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

from isoloss.command_line.options import (
    LONGEST,
    LanguageFile,
    Longest,
    MaximumLength,
    language_argument,
    refuse_missing_language,
    refuse_too_many,
    usable_seed,
)
from isoloss.command_line.terminal import starting
from isoloss.errors import BadInput

if TYPE_CHECKING:
    import torch

    from isoloss.languages.language import Language

PIECE, PIECE_OF_A_MODEL = 10_000, 64
"""Sentences drawn before the first is printed, a few seconds at most; how draws are split changes nothing."""


@dataclass(frozen=True)
class SampleOptions:
    """Sample sentences from a language, one per line.

    Example: isoloss sample my.pcfg --sentences 5 --trees
    """

    language: LanguageFile
    sentences: Annotated[int, tyro.conf.arg(metavar="N")] = 10
    """How many sentences to draw."""
    seed: int = 0
    """Seed of the draws; the same seed gives the same sentences."""
    trees: bool = False
    """Print each sentence's derivation tree, such as (S (A a) b); grammars only."""
    json: bool = False
    """Print JSON: {"sentences": [...]}, or trees with --trees."""
    maximum_length: MaximumLength = None
    longest: Longest = LONGEST


def sample(options: SampleOptions) -> None:
    """Sample sentences from a language, one per line."""
    refuse_missing_language(options.language)
    if options.sentences < 1:
        raise BadInput(f"--sentences {options.sentences} draws nothing; draw at least 1")
    refuse_too_many(options.sentences)
    seed = usable_seed(options.seed)
    with starting("sample"):
        import torch

        from isoloss.languages.causal_lm import CausalLM

    generator = torch.Generator().manual_seed(seed)
    drawn_from = language_argument(options.language, options.maximum_length, options.longest)
    at_once = PIECE_OF_A_MODEL if isinstance(drawn_from, CausalLM) else PIECE
    pieces = (min(at_once, options.sentences - done) for done in range(0, options.sentences, at_once))
    lines = (line for piece in pieces for line in _lines(drawn_from, piece, generator, options.trees))
    if options.json:
        print(json.dumps({"sentences": list(lines)}, ensure_ascii=False))
    else:
        for line in lines:
            print(line)


def _lines(language: "Language", sentences: int, generator: "torch.Generator", trees: bool) -> Iterator[str]:
    from isoloss.languages.language import DrawsDerivations, kind_of

    if trees:
        if not isinstance(language, DrawsDerivations):
            raise BadInput(
                f"sentences of this {kind_of(language)} have no derivation trees; leave --trees out"
            )
        yield from map(str, language.sample_derivations(sentences, generator))
        return
    drawn = language.sample(sentences, generator)
    for ids, length in zip(drawn.ids.tolist(), drawn.lengths.tolist(), strict=True):
        yield " ".join(language.vocabulary[word] for word in ids[:length])
