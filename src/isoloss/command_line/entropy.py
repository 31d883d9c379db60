"""`isoloss entropy`: the entropy of a language's exact laws, with error bars."""

import json as json_format
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from isoloss.command_line.progress_display import progress_display
from isoloss.errors import BadInput
from isoloss.languages.language_file import read_language
from isoloss.measurements.entropy import language_entropy


def entropy(
    language: tyro.conf.Positional[Path],
    /,
    sentences: Annotated[int, tyro.conf.arg(metavar="N")] = 1000,
    seed: int = 0,
    json: bool = False,
    maximum_length: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
) -> None:
    """Estimate the entropy of masked words and of next words, the least losses a model can reach.

    Example: isoloss entropy my.pcfg --sentences 10000 --seed 1 --json

    Args:
        language: A grammar file in NLTK's notation, or an HMM file in JSON.
        sentences: How many sentences to draw.
        seed: Seed of the draws; the same seed gives the same figures.
        json: Print JSON: {"records": [...]}.
        maximum_length: Cut a grammar at sentences of N words.
    """
    if sentences < 2:
        raise BadInput(f"--sentences {sentences} has no error bar; draw at least 2")
    if not 0 <= seed < 2**63:
        raise BadInput(f"--seed must be from 0 to {2**63 - 1}, not {seed}")
    drawn_from = read_language(language, maximum_length)
    with progress_display() as progress:
        records = language_entropy(drawn_from, sentences, seed, progress)
    if json:
        print(json_format.dumps({"records": [asdict(record) for record in records]}, allow_nan=False))
        return
    table = Table(caption=f"{sentences} sentences, seed {seed}")
    for heading in ("quantity", "value", "± standard error", "unit"):
        table.add_column(heading)
    for record in records:
        table.add_row(record.quantity, f"{record.value:.5f}", f"{record.standard_error:.5f}", record.unit)
    Console().print(table)
