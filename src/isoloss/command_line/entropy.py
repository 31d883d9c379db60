"""`isoloss entropy`: the entropy of a language's exact laws, with error bars."""

import json as json_format
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from isoloss.command_line.language_argument import language_argument
from isoloss.command_line.law_cost import tell_cost_of_one_position_each
from isoloss.command_line.progress_display import progress_display
from isoloss.command_line.seed import usable_seed
from isoloss.errors import BadInput
from isoloss.languages.causal_lm import CausalLM
from isoloss.measurements.entropy import language_entropy, usual_sentences


def entropy(
    language: tyro.conf.Positional[Path],
    /,
    sentences: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    seed: int = 0,
    json: bool = False,
    maximum_length: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
) -> None:
    """Estimate the entropy of masked words and of next words, the least losses a model can reach.

    Example: isoloss entropy my.pcfg --sentences 10000 --seed 1 --json

    Args:
        language: A language's file: a grammar in NLTK's notation, or JSON; see `isoloss language`.
        sentences: How many sentences to draw; when not given 1000, or 100 of a causal language, whose masked
            laws are costly and are taken at one position of each sentence, drawn at random.
        seed: Seed of the draws; the same seed gives the same figures.
        json: Print JSON: {"records": [...]}.
        maximum_length: Cut a grammar at sentences of N words.
    """
    if sentences is not None and sentences < 2:
        raise BadInput(f"--sentences {sentences} has no error bar; draw at least 2")
    seed = usable_seed(seed)
    drawn_from = language_argument(language, maximum_length)
    n = usual_sentences(drawn_from) if sentences is None else sentences
    if isinstance(drawn_from, CausalLM):
        tell_cost_of_one_position_each(drawn_from, n)
    with progress_display() as progress:
        records = language_entropy(drawn_from, n, seed, progress)
    if json:
        print(json_format.dumps({"records": [asdict(record) for record in records]}, allow_nan=False))
        return
    table = Table(caption=f"{n} sentences, seed {seed}")
    for heading in ("quantity", "value", "± standard error", "unit"):
        table.add_column(heading)
    for record in records:
        table.add_row(record.quantity, f"{record.value:.5f}", f"{record.standard_error:.5f}", record.unit)
    Console().print(table)
