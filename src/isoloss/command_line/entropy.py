"""`isoloss entropy`: the entropy of a language's exact distributions, with error bars."""

import json
from dataclasses import asdict, dataclass

from isoloss.command_line.language_argument import (
    LONGEST,
    LanguageFile,
    Longest,
    MaximumLength,
    language_argument,
    language_in,
    refuse_no_error_bar,
    report_cost,
)
from isoloss.command_line.options import Number, usable_seed
from isoloss.command_line.terminal import print_table, progress_display, starting


@dataclass(frozen=True)
class EntropyOptions:
    """Estimate the entropy of masked words and of next words, the lowest losses a model can reach.

    Example: isoloss entropy my.pcfg --sentences 10000 --seed 1 --json
    """

    language: LanguageFile
    sentences: Number = None
    """How many sentences to draw; by default 1000, or 100 for a causal language, whose masked distributions
    are expensive and are therefore computed at one random position per sentence."""
    seed: int = 0
    """Seed of the draws; the same seed gives the same numbers."""
    json: bool = False
    """Print JSON: {"records": [...]}."""
    maximum_length: MaximumLength = None
    longest: Longest = LONGEST


def entropy(options: EntropyOptions) -> None:
    """Estimate the entropy of masked words and of next words, the lowest losses a model can reach."""
    language_in(options.language)
    refuse_no_error_bar(options.sentences)
    seed = usable_seed(options.seed)
    with starting("entropy"):
        from isoloss.measurements.entropy import language_entropy, usual_sentences

    drawn_from = language_argument(options.language, options.maximum_length, options.longest)
    n = usual_sentences(drawn_from) if options.sentences is None else options.sentences
    report_cost(drawn_from, n)
    with progress_display() as progress:
        records = language_entropy(drawn_from, n, seed, progress)
    if options.json:
        print(json.dumps({"records": [asdict(record) for record in records]}, allow_nan=False))
        return
    rows = [(each.quantity, f"{each.value:.5f}", f"{each.standard_error:.5f}", each.unit) for each in records]
    titles = ("quantity", "value", "± standard error", "unit")
    print_table(titles, rows, left=titles, caption=f"{n} sentences, seed {seed}")
