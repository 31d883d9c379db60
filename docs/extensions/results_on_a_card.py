"""What docs/paper-scale.md tells of the finished runs at scale gpu, from records/gpu.parquet.

`make results` writes it, and a test compares it with what this writes.
"""

import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import torch
from results_shipped import ROOT
from torch import Tensor

from isoloss.experiments.design import builtin_designs
from isoloss.experiments.experiment_result import experiment_table, judged_runs
from isoloss.experiments.scale import scale_named
from isoloss.experiments.statistics.along_runs import FLATTENING, IMPROVEMENT, RANGE_OF_LOSS
from isoloss.results.estimate import sample_mean
from isoloss.stored_runs.packed_records import unpack_records

PAPER_SCALE, RECORDS = ROOT / "docs" / "paper-scale.md", ROOT / "records" / "gpu.parquet"
BEGIN, END = "<!-- what a card has given -->\n", "<!-- until here -->\n"
COLUMNS = {"loss": "loss, nats", "kl": "KL, nats", "trace": "trace", "accuracy": "accuracy, task B"}


def with_runs_on_a_card(page: str) -> str:
    """The page's text with what the runs have given, between the marks."""
    before, begin, rest = page.partition(BEGIN)
    return before + begin + _told(_finished_runs()) + END + rest.partition(END)[2]


def _finished_runs() -> list[pl.DataFrame]:
    """A frame of checkpoints for each finished run of Figure 1."""
    figure_1 = builtin_designs()["figure-1"].at(scale_named("gpu"))
    with tempfile.TemporaryDirectory() as folder:
        unpack_records(RECORDS, Path(folder) / "gpu")
        return judged_runs(experiment_table(figure_1, Path(folder) / "gpu"))


def _told(runs: Sequence[pl.DataFrame]) -> str:
    every = pl.concat(runs, how="diagonal")
    rows = ["| " + " | ".join(["width", "step", "runs", *COLUMNS.values()]) + " |"]
    rows.append("|" + "---|" * (3 + len(COLUMNS)))
    for (width, step), at in every.group_by("width", "step", maintain_order=True):
        cells = [_mean(at[column].to_torch(), 3 if column != "trace" else 0) for column in COLUMNS]
        rows.append(f"| {width} | {step:,} | {len(at)} | {' | '.join(cells)} |")
    of_runs = (
        sample_mean(torch.tensor([statistic([run]) for run in runs]))
        for statistic in (RANGE_OF_LOSS, FLATTENING, IMPROVEMENT)
    )
    loss, flatter, better = of_runs
    last = every.filter(pl.col("step") == every["step"].max())
    left = (last["kl"] / (last["loss"] - last["kl"])).to_torch().mean()
    text = (
        "Mean over runs ± their standard deviation. Within a run, between these steps, the loss moves by "
        f"{100 * loss.value:.1f} % of itself, and at the end KL is {100 * left:.0f} % of the entropy: models "
        "of this size have not come to rest by then, nor near the distribution. A doubling of the steps "
        f"changes the trace by {flatter.value:+.3f} ± {flatter.standard_error:.3f} doublings, and accuracy "
        f"by {better.value:+.2f} ± {better.standard_error:.2f} percentage points (± one standard error)."
    )
    return "\n".join(rows) + "\n\n" + textwrap.fill(text, 120) + "\n"


def _mean(values: Tensor, digits: int) -> str:
    return f"{values.mean():.{digits}f} ± {values.std():.{digits}f}"


if __name__ == "__main__":
    PAPER_SCALE.write_text(with_runs_on_a_card(PAPER_SCALE.read_text()))
