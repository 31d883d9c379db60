"""`isoloss sample`: sentences of a language, or a grammar's derivation trees."""

import json

import torch

from isoloss.command_line.checked_options import usable_seed
from isoloss.command_line.language_argument import LanguageOfFile, kind_of, language_argument, refuse_too_many
from isoloss.command_line.options.language_file import SampleOptions
from isoloss.errors import BadInput
from isoloss.languages.causal_lm import CausalLM
from isoloss.languages.pcfg import PCFG

PIECE, PIECE_OF_A_MODEL = 10_000, 64
"""Sentences drawn before the first is printed, a few seconds at most; how draws are split changes nothing."""


def sample(options: SampleOptions) -> None:
    """Sample sentences from a language, one per line."""
    if options.sentences < 1:
        raise BadInput(f"--sentences {options.sentences} draws nothing; draw at least 1")
    refuse_too_many(options.sentences)
    generator = torch.Generator().manual_seed(usable_seed(options.seed))
    drawn_from = language_argument(options.language, options.maximum_length, options.longest)
    at_once = PIECE_OF_A_MODEL if isinstance(drawn_from, CausalLM) else PIECE
    pieces = (min(at_once, options.sentences - done) for done in range(0, options.sentences, at_once))
    lines = (line for piece in pieces for line in _lines(drawn_from, piece, generator, options.trees))
    if options.json:
        print(json.dumps({"sentences": list(lines)}, ensure_ascii=False))
    else:
        for line in lines:
            print(line)


def _lines(language: LanguageOfFile, sentences: int, generator: torch.Generator, trees: bool) -> list[str]:
    if trees:
        if not isinstance(language, PCFG):
            raise BadInput(
                f"sentences of this {kind_of(language)} have no derivation trees; leave --trees out"
            )
        return [str(tree) for tree in language.sample_derivations(sentences, generator)]
    drawn = language.sample(sentences, generator)
    rows = zip(drawn.ids.tolist(), drawn.lengths.tolist(), strict=True)
    return [" ".join(language.vocabulary[word] for word in ids[:length]) for ids, length in rows]
