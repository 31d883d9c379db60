"""`isoloss sample`: sentences, or their derivation trees, drawn from a grammar."""

import json as json_format
from pathlib import Path
from typing import Annotated

import torch
import tyro

from isoloss.errors import BadInput
from isoloss.languages.pcfg import PCFG, read_pcfg


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
    language = read_pcfg(grammar, maximum_length)
    lines = _lines(language, sentences, seed, trees)
    print(json_format.dumps({"sentences": lines}, ensure_ascii=False) if json else "\n".join(lines))


def _lines(language: PCFG, sentences: int, seed: int, trees: bool) -> list[str]:
    generator = torch.Generator().manual_seed(seed)
    if trees:
        return [str(tree) for tree in language.sample_derivations(sentences, generator)]
    drawn = language.sample(sentences, generator)
    rows = zip(drawn.ids.tolist(), drawn.lengths.tolist(), strict=True)
    return [" ".join(language.vocabulary[word] for word in ids[:length]) for ids, length in rows]
