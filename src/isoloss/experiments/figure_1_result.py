"""Figure 1 from its settings to its numbers: every run carried out, every claim judged."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from isoloss.experiments.claims import Judgement, judge
from isoloss.experiments.figure_1 import FigureOne, FigureRun, figure_runs
from isoloss.experiments.figure_1_claims import CLAIMS
from isoloss.experiments.figure_1_run import checkpoint_table, jobs
from isoloss.experiments.language_portrait import LanguagePortrait, language_portrait
from isoloss.experiments.measured_on import draw, save
from isoloss.experiments.runner import Outcome, run_jobs
from isoloss.files import writable
from isoloss.languages.pcfg import PCFG
from isoloss.languages.task import Task
from isoloss.measurements.linear_probe import reference_records
from isoloss.measurements.record import Record
from isoloss.progress import Progress, silent

ENTROPY_SENTENCES = 2000


@dataclass(frozen=True)
class LanguageFacts:
    """What the page tells of the language: its portrait, the task, and their numbers."""

    portrait: LanguagePortrait
    task: str
    records: tuple[Record, ...]


@dataclass(frozen=True)
class FigureOneResult:
    """The measured checkpoints, a row each, and what the runs had to tell."""

    figure: FigureOne
    language: LanguageFacts
    checkpoints: pl.DataFrame
    outcome: Outcome
    seconds: float

    def judgements(self) -> list[Judgement]:
        """The claims judged on the saturated checkpoints of the runs that have at least two."""
        if self.checkpoints.is_empty():
            return judge(CLAIMS, [])
        dots = self.checkpoints.filter("saturated").partition_by("run", maintain_order=True)
        return judge(CLAIMS, [run for run in dots if len(run) > 1])


def carry_out_figure(
    figure: FigureOne,
    language: PCFG,
    task: Task,
    output: Path,
    runs: Sequence[FigureRun],
    *,
    processes: int,
    device: str = "cpu",
    progress: Progress = silent,
) -> FigureOneResult:
    """Train and measure `runs` into `output`, then gather every run of the figure measured there.

    Resumable at any moment; a run that fails is named in the result and the others go on. Raises
    IsolossError when `output` cannot be written.
    """
    begun = time.monotonic()
    with writable(output):
        output.mkdir(parents=True, exist_ok=True)
    on = draw(figure.measurement, language, task, progress)
    outcome = run_jobs(jobs(runs, language, save(on, output), output, device), processes, progress)
    seed, source = figure.measurement.seed, language.grammar.source
    portrait = language_portrait(language, source, ENTROPY_SENTENCES, seed, progress)
    references = reference_records(on.splits.test, {"task": task.name})
    facts = LanguageFacts(portrait, task.name, (*portrait.entropy, *references))
    checkpoints = checkpoint_table(figure_runs(figure, language), output, on.digest, figure.saturated_from)
    return FigureOneResult(figure, facts, checkpoints, outcome, time.monotonic() - begun)
