"""`isoloss sample`: sentences of a language, or a grammar's derivation trees."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from isoloss.command_line.language_argument import (
    LONGEST,
    LanguageFile,
    Longest,
    MaximumLength,
    language_argument,
    language_in,
    refuse_too_many,
)
from isoloss.command_line.options import usable_seed
from isoloss.command_line.terminal import starting
from isoloss.errors import BadInput
from isoloss.languages.grammar import Grammar

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
    written = language_in(options.language)
    if options.trees and not isinstance(written, Grammar):
        raise BadInput(f"sentences of this {_kind(written)} have no derivation trees; leave --trees out")
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


def _kind(written: Any) -> str:
    """What a language is called by the keys of its JSON."""
    names = {"dyck": "Dyck language", "causal_language_model": "causal language model"}
    keys = written if isinstance(written, dict) else {}
    return next((name for key, name in names.items() if key in keys), "hidden Markov model")


def _lines(language: "Language", sentences: int, generator: "torch.Generator", trees: bool) -> Iterator[str]:
    from isoloss.languages.language import DrawsDerivations

    if trees:
        assert isinstance(language, DrawsDerivations)  # a grammar's, or else it has been refused
        yield from map(str, language.sample_derivations(sentences, generator))
        return
    drawn = language.sample(sentences, generator)
    for ids, length in zip(drawn.ids.tolist(), drawn.lengths.tolist(), strict=True):
        yield " ".join(language.vocabulary[word] for word in ids[:length])
