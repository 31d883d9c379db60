"""`isoloss sample`: sentences of a language, or a grammar's derivation trees."""

import json as json_format
from pathlib import Path
from typing import Annotated

import torch
import tyro

from isoloss.command_line.language_argument import LanguageOfFile, kind_of, language_argument
from isoloss.command_line.seed import usable_seed
from isoloss.errors import BadInput
from isoloss.languages.causal_lm import CausalLM
from isoloss.languages.pcfg import PCFG

PIECE, PIECE_OF_A_MODEL = 10_000, 64
"""Sentences drawn before the first is printed, some seconds at most; how draws are split changes none."""


def sample(
    language: tyro.conf.Positional[Path],
    /,
    sentences: Annotated[int, tyro.conf.arg(metavar="N")] = 10,
    seed: int = 0,
    trees: bool = False,
    json: bool = False,
    maximum_length: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
) -> None:
    """Draw sentences from a language, one a line.

    Example: isoloss sample my.pcfg --sentences 5 --trees

    Args:
        language: A language's file: a grammar in NLTK's notation, or JSON; see `isoloss language`.
        sentences: How many sentences to draw.
        seed: Seed of the draws; the same seed gives the same sentences.
        trees: Print each sentence's derivation tree, such as (S (A a) b); grammars only.
        json: Print JSON: {"sentences": [...]}, of trees with --trees.
        maximum_length: Cut a grammar at sentences of N words.
    """
    if sentences < 1:
        raise BadInput(f"--sentences {sentences} draws nothing; draw at least 1")
    generator = torch.Generator().manual_seed(usable_seed(seed))
    drawn_from = language_argument(language, maximum_length)
    at_once = PIECE_OF_A_MODEL if isinstance(drawn_from, CausalLM) else PIECE
    pieces = (min(at_once, sentences - done) for done in range(0, sentences, at_once))
    lines = (line for piece in pieces for line in _lines(drawn_from, piece, generator, trees))
    if json:
        print(json_format.dumps({"sentences": list(lines)}, ensure_ascii=False))
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
