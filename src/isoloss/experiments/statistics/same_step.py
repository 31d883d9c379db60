"""Compares runs at the same step, where their losses are the same too: what matching by loss alone is not."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl

from isoloss.experiments.statistics.same_loss import LOSS_WINDOW, Comparison, rule_and_seed
from isoloss.experiments.statistics.seed_bootstrap import FrameKey, Frames


@dataclass(frozen=True)
class MeanAtSameStep:
    """Mean over seeds of a rule's runs compared with the reference's, step by step, over the last doubling.

    The steps are those of the checkpoints that both runs have in the last doubling of steps of the rule's. A
    pair counts where the two losses differ by less than `window` of the reference's, which None switches off,
    as a loss that is itself compared demands. A seed without such a step is left out; nan if none is left.
    """

    rule: str
    reference: str
    column: str
    compare: Comparison
    window: float | None = LOSS_WINDOW

    def __call__(self, runs: Frames) -> float:
        """See the class."""
        named = [(run, *rule_and_seed(run)) for run in runs]
        references = {seed: run for run, rule, seed in named if rule == self.reference}
        found = [
            _of_pair(self, FrameKey(run), FrameKey(references[seed]))
            for run, rule, seed in named
            if rule == self.rule and seed in references
        ]
        defined = [value for value in found if value is not None]
        return float(np.mean(defined)) if defined else float("nan")


@lru_cache(maxsize=4096)
def _of_pair(asked: MeanAtSameStep, run: FrameKey, reference: FrameKey) -> float | None:
    """The mean over the pair's steps, the same in all resamples that have its seed; None without any."""
    pairs = at_same_steps(run.frame, reference.frame, (asked.column, "loss"), asked.window)
    values = [asked.compare(row[asked.column], row[f"{asked.column}_reference"]) for row in pairs]
    return float(np.mean(values)) if values else None


def at_same_steps(
    run: pl.DataFrame, reference: pl.DataFrame, columns: Sequence[str], window: float | None = LOSS_WINDOW
) -> list[dict[str, float]]:
    """The `columns` of both, the reference's with the suffix "_reference", at each step of the comparison.

    >>> loss = {"step": [5, 10, 20], "loss": [1.0, 1.0, 1.0]}
    >>> run, reference = pl.DataFrame(loss | {"trace": [9, 4, 2]}), pl.DataFrame(loss | {"trace": [9, 8, 8]})
    >>> [(row["trace"], row["trace_reference"]) for row in at_same_steps(run, reference, ["trace", "loss"])]
    [(4, 8), (2, 8)]
    """
    names = list(dict.fromkeys(("step", *columns)))
    both = run.select(names).join(reference.select(names), on="step", suffix="_reference").drop_nulls()
    last = run["step"].max()
    assert isinstance(last, int | float) or last is None
    return [
        row
        for row in both.sort("step").to_dicts()
        if row["step"] >= (last or 0) / 2
        and (window is None or abs(row["loss"] / row["loss_reference"] - 1) < window)
    ]
