"""`isoloss sample`: sentences, or their derivation trees, drawn from a grammar."""

import json as json_format
from pathlib import Path
from typing import Annotated

import torch
import tyro

from isoloss.errors import BadInput
from isoloss.languages.pcfg import PCFG, read_pcfg

PIECE = 10_000
"""Sentences drawn before the first is printed; how draws are split changes none of them."""


def sample(
    grammar: tyro.conf.Positional[Path],
    /,
    sentences: Annotated[int, tyro.conf.arg(metavar="N")] = 10,
    seed: int = 0,
    trees: bool = False,
    json: bool = False,
    maximum_length: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
) -> None:
    """Draw sentences from a grammar, one a line.

    Example: isoloss sample my.pcfg --sentences 5 --trees

    Args:
        grammar: A grammar file in NLTK's notation.
        sentences: How many sentences to draw.
        seed: Seed of the draws; the same seed gives the same sentences.
        trees: Print each sentence's derivation tree, such as (S (A a) b).
        json: Print JSON: {"sentences": [...]}, of trees with --trees.
        maximum_length: Cut the language at sentences of N words.
    """
    if sentences < 1:
        raise BadInput(f"--sentences {sentences} draws nothing; draw at least 1")
    if not 0 <= seed < 2**63:
        raise BadInput(f"--seed must be from 0 to {2**63 - 1}, not {seed}")
    language = read_pcfg(grammar, maximum_length)
    generator = torch.Generator().manual_seed(seed)
    pieces = (min(PIECE, sentences - done) for done in range(0, sentences, PIECE))
    lines = (line for piece in pieces for line in _lines(language, piece, generator, trees))
    if json:
        print(json_format.dumps({"sentences": list(lines)}, ensure_ascii=False))
    else:
        for line in lines:
            print(line)


def _lines(language: PCFG, sentences: int, generator: torch.Generator, trees: bool) -> list[str]:
    if trees:
        return [str(tree) for tree in language.sample_derivations(sentences, generator)]
    drawn = language.sample(sentences, generator)
    rows = zip(drawn.ids.tolist(), drawn.lengths.tolist(), strict=True)
    return [" ".join(language.vocabulary[word] for word in ids[:length]) for ids, length in rows]
