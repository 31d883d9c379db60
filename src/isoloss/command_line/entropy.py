"""`isoloss entropy`: the entropy of a language's exact distributions, with error bars."""

import json
from dataclasses import asdict

from rich.table import Table

from isoloss.command_line.checked_options import usable_seed
from isoloss.command_line.language_argument import (
    language_argument,
    refuse_too_many,
    tell_cost_of_one_position_each,
)
from isoloss.command_line.options.language_file import EntropyOptions
from isoloss.command_line.terminal import progress_display, table_console
from isoloss.errors import BadInput
from isoloss.languages.causal_lm import CausalLM
from isoloss.measurements.entropy import language_entropy, usual_sentences


def entropy(options: EntropyOptions) -> None:
    """Estimate the entropy of masked words and of next words, the lowest losses a model can reach."""
    if options.sentences is not None and options.sentences < 2:
        raise BadInput(f"--sentences {options.sentences} has no error bar; draw at least 2")
    refuse_too_many(options.sentences or 0)
    seed = usable_seed(options.seed)
    drawn_from = language_argument(options.language, options.maximum_length, options.longest)
    n = usual_sentences(drawn_from) if options.sentences is None else options.sentences
    if isinstance(drawn_from, CausalLM):
        tell_cost_of_one_position_each(drawn_from, n)
    with progress_display() as progress:
        records = language_entropy(drawn_from, n, seed, progress)
    if options.json:
        print(json.dumps({"records": [asdict(record) for record in records]}, allow_nan=False))
        return
    table = Table(caption=f"{n} sentences, seed {seed}")
    for heading in ("quantity", "value", "± standard error", "unit"):
        table.add_column(heading)
    for record in records:
        table.add_row(record.quantity, f"{record.value:.5f}", f"{record.standard_error:.5f}", record.unit)
    table_console().print(table)
