"""`isoloss sample`: sentences, or their derivation trees, drawn from a grammar or an HMM."""

import json as json_format
from pathlib import Path
from typing import Annotated

import torch
import tyro

from isoloss.errors import BadInput
from isoloss.languages.hmm import HMM
from isoloss.languages.language_file import read_language
from isoloss.languages.pcfg import PCFG

PIECE = 10_000
"""Sentences drawn before the first is printed; how draws are split changes none of them."""


def sample(
    language: tyro.conf.Positional[Path],
    /,
    sentences: Annotated[int, tyro.conf.arg(metavar="N")] = 10,
    seed: int = 0,
    trees: bool = False,
    json: bool = False,
    maximum_length: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
) -> None:
    """Draw sentences from a grammar or an HMM, one a line.

    Example: isoloss sample my.pcfg --sentences 5 --trees

    Args:
        language: A grammar file in NLTK's notation, or an HMM file in JSON.
        sentences: How many sentences to draw.
        seed: Seed of the draws; the same seed gives the same sentences.
        trees: Print each sentence's derivation tree, such as (S (A a) b); grammars only.
        json: Print JSON: {"sentences": [...]}, of trees with --trees.
        maximum_length: Cut a grammar at sentences of N words.
    """
    if sentences < 1:
        raise BadInput(f"--sentences {sentences} draws nothing; draw at least 1")
    if not 0 <= seed < 2**63:
        raise BadInput(f"--seed must be from 0 to {2**63 - 1}, not {seed}")
    drawn_from = read_language(language, maximum_length)
    generator = torch.Generator().manual_seed(seed)
    pieces = (min(PIECE, sentences - done) for done in range(0, sentences, PIECE))
    lines = (line for piece in pieces for line in _lines(drawn_from, piece, generator, trees))
    if json:
        print(json_format.dumps({"sentences": list(lines)}, ensure_ascii=False))
    else:
        for line in lines:
            print(line)


def _lines(language: PCFG | HMM, sentences: int, generator: torch.Generator, trees: bool) -> list[str]:
    if trees:
        if isinstance(language, HMM):
            raise BadInput("the sentences of an HMM have no derivation trees; leave --trees out")
        return [str(tree) for tree in language.sample_derivations(sentences, generator)]
    drawn = language.sample(sentences, generator)
    rows = zip(drawn.ids.tolist(), drawn.lengths.tolist(), strict=True)
    return [" ".join(language.vocabulary[word] for word in ids[:length]) for ids, length in rows]
