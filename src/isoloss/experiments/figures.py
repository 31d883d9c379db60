"""What figures share: axes, panels over steps, captions about error bars, and downstream tasks as shown."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from isoloss.experiments.experiment import PlannedReference
from isoloss.experiments.planned_run import Labels, MeasuredAt, PlannedRun
from isoloss.experiments.scale import MeasurementSizes, Scale
from isoloss.experiments.shared.grammar_and_hmm import GRAMMAR_PAPER
from isoloss.experiments.shared.language_runs import AnyRuns, runs_of_sizes, width_of
from isoloss.experiments.statistics.along_runs import Among
from isoloss.experiments.statistics.same_loss import LOSS_WINDOW
from isoloss.experiments.statistics.seed_bootstrap import Statistic
from isoloss.measurements.accuracy import AccuracyQuantity, Projected
from isoloss.measurements.references import BeforeTraining, ControlQuantity, TaskReference
from isoloss.panels import Axis, Colour, Lines, Mark, Panel

STAND_IN = (
    "The paper's grammar is not published. The one that stands in for it here has its sizes, mean length and "
    "entropy, but not its tasks: the lookup table finds the symbol of task A for 46 % of the sentences, no "
    "more than the most common class, and that of task B for 45 %; the paper's finds 71.2 % and 39.7 %. "
    "Accuracies on these tasks are therefore not to be compared with the paper's numbers."
)
"""From 2,000 labelled sentences and 1,000 others, before any training."""

NO_ROOM = (
    "No task of the causal language has [room](languages.md): a probe on the words alone is short of perfect "
    "by {points} percentage points, so that accuracies there say little about a model."
)
"""Of its claims on accuracy; `points` are those of the task that is shown."""
OWN_TASK = (
    "GLUE's texts are out of reach of the laptop scale's language, which has 24 tokens and sentences of 6. "
    "Tokenised with its teacher's vocabulary, 70 % of the tokens in film reviews and 71 % of those in QNLI "
    "are none of the 24; a text has 61 or 62 tokens; and of 1,894 review snippets not one consists of known "
    "tokens alone. The language's own tasks leave little room for improvement: a probe on the words alone is "
    "at most 0.07 short of perfect at telling how a sentence began, so features can add little. The "
    "experiment glue-of-causal-language nevertheless probes the models on such texts, next to an untrained "
    "model."
)
"""Counted on the stand-ins' test sets (`MovieSnippets`, `AnsweringSentences`); rooms: `isoloss describe`."""

LOSS = Axis("loss", "exact pre-training loss (nats)", "kl_error")
KL = Axis("kl", "KL(distribution || model) (nats)", "kl_error")
ACCURACY = Axis("accuracy", "linear probe accuracy", "accuracy_deviation")
TRACE = Axis("trace", "trace of the Hessian (Fisher form)", "trace_error", logarithmic=True)
STEP = Axis("step", "pre-training step", logarithmic=True)
BY_WIDTH = Colour("width", "width", ordered=True)
LOG_KL = Axis("kl", "KL(distribution || model) (nats)", "kl_error", logarithmic=True)
DESCENT_STEP = Axis("step", "step of SGD")
SIZE = Axis("width", "width", logarithmic=True)
BY_SEED = Colour("seed", "seed")


def of_the_stand_in(scale: Scale) -> tuple[str, ...]:
    """What is to be said of accuracies on the grammar that stands in for the paper's; nothing of others."""
    return (STAND_IN,) if scale.grammar.language.digest == GRAMMAR_PAPER.language.digest else ()


def probe_bars(sizes: MeasurementSizes) -> str:
    """Of the probe's accuracy."""
    return (
        f"Errors of accuracy: one standard deviation over {len(sizes.probe.seeds)} probe seeds, each on "
        f"{sizes.probe_test:,} test sentences. "
    )


def loss_bars(sizes: MeasurementSizes) -> str:
    """Of the exact loss and of its KL."""
    return (
        "Errors of loss and KL: one standard error of KL(distribution || model) over "
        f"{sizes.loss_sentences:,} sentences; the loss adds the entropy of the distribution, the same "
        "constant for all models. "
    )


def trace_bars(sizes: MeasurementSizes) -> str:
    """Of the trace."""
    return (
        f"Errors of the trace: one standard error over {sizes.trace_sentences:,} sentences. The trace is "
        "that of the Fisher information, which equals the Hessian's where the model has learnt the "
        "distribution (Lemma 3.2). "
    )


def judged_from(step: int, table: pl.DataFrame) -> Mark:
    """The step from which on claims are judged, and whether losses have converged by it, to `LOSS_WINDOW`.

    >>> judged_from(2, pl.DataFrame({"run": "a", "step": [1, 2, 4], "loss": [2.0, 1.401, 1.4]})).label
    'loss converged'
    """
    after = table.filter(pl.col("step") >= step) if "loss" in table.columns else table.clear()
    span = (pl.col("loss").max() - pl.col("loss").min()) / pl.col("loss").mean()
    spans = [] if after.is_empty() else after.group_by("run").agg(span=span)["span"].to_list()
    converged = bool(spans) and statistics.mean(spans) < LOSS_WINDOW
    return Mark(step, "loss converged" if converged else "judged from here")


def entropy_of(table: pl.DataFrame) -> float | None:
    """The entropy of the distribution, what loss exceeds KL by; None while neither has been measured."""
    if not {"loss", "kl"} <= set(table.columns):
        return None
    found = table.select(entropy=pl.col("loss") - pl.col("kl"))["entropy"].median()
    return float(found) if isinstance(found, float) else None


def over_steps(
    *axes: Axis, by: Colour, caption: str = "", shows: tuple[str, ...] = ()
) -> Callable[[pl.DataFrame], tuple[Panel, ...]]:
    """Panels of an experiment: quantities over pre-training steps, a line a run, coloured `by` a label."""

    def panels(table: pl.DataFrame) -> tuple[Panel, ...]:
        rows = table.filter(pl.col("step").is_not_null())
        shown = [axis for axis in axes if axis.column in rows.columns]
        lines = tuple(Lines(STEP, axis, by, "run") for axis in shown)
        title = f"{', '.join(axis.title.partition(' (')[0] for axis in shown)} over steps"
        about = f"One line per run. {caption}".strip()
        return (Panel("steps", title, about, lines, rows, "stacked", shows),)

    return panels


PROJECTED = "projected_accuracy"
"""The column of the probe on features of the same dimension for all widths."""

UNTRAINED_PROJECTED = "untrained_projected_accuracy"
"""The column of that probe on each run's model before its first step."""

UNTRAINED = "untrained_accuracy"
"""The same of the probe on all features as they are."""

PANEL = "panel"
"""The column that identifies the panel of a row."""


@dataclass(frozen=True)
class ShownTask:
    """`key` identifies the panel and its runs; `label` is the task in words."""

    key: str
    language: str
    label: str
    runs: AnyRuns
    task: str

    @property
    def title(self) -> str:
        """Language and task."""
        return f"{self.language}, {self.label}"

    def probe(self, sizes: MeasurementSizes) -> AccuracyQuantity:
        """The linear probe for the task."""
        return sizes.probe_of(self.task)

    def probed_runs(self, scale: Scale, steps: tuple[int, ...]) -> tuple[PlannedRun, ...]:
        """Every size and seed, with exact loss and probe at `steps`."""
        loss = scale.sizes.loss(self.runs.evaluated)
        measured = (MeasuredAt(loss, steps), MeasuredAt(self.probe(scale.sizes), steps))
        return self.labelled(runs_of_sizes(self.runs, scale.seeds, measured))

    def projected_runs(self, scale: Scale) -> tuple[PlannedRun, ...]:
        """Every size and seed with loss, probe and, if sizes are compared, `size_probes`."""
        probes, steps = self.size_probes(scale.sizes), self.runs.compared_steps
        return tuple(
            replace(run, measured=(*run.measured, *probes), saturated_from=steps[0])
            for run in self.probed_runs(scale, steps)
        )

    def size_probes(self, sizes: MeasurementSizes) -> tuple[MeasuredAt, ...]:
        """What sizes are compared by beside the plain probe: features of one dimension, and untrained models.

        All widths are projected to the dimension of the narrowest's features, by one matrix per width.
        """
        narrowest = min(width_of(model) for model in self.runs.architectures)
        projection = Projected(narrowest * self.runs.language.maximum_length, sizes.seed)
        projected = sizes.probe_of(self.task, PROJECTED, projection)
        controls = (
            ControlQuantity(projected, BeforeTraining(), UNTRAINED_PROJECTED),
            ControlQuantity(self.probe(sizes), BeforeTraining(), UNTRAINED),
        )
        return (
            MeasuredAt(projected, self.runs.compared_steps),
            *(MeasuredAt(control, (self.runs.steps,)) for control in controls),
        )

    def reference(self, sizes: MeasurementSizes) -> PlannedReference:
        """Chance and ceiling of the task, a row of the table."""
        reference = TaskReference(self.probe(sizes))
        return PlannedReference(
            f"chance and ceiling of {self.key}", self.runs.language, reference, self.labels
        )

    def labelled(self, runs: Sequence[PlannedRun]) -> tuple[PlannedRun, ...]:
        """The runs under the panel's names: another panel may show the same ones for its task."""
        return tuple(
            replace(run, name=f"{self.key}-{run.name}", labels=(*self.labels, *run.labels)) for run in runs
        )

    @property
    def labels(self) -> Labels:
        """What identifies the panel's rows."""
        return ((PANEL, self.key),)

    def rows(self, table: pl.DataFrame) -> pl.DataFrame:
        """The panel's checkpoints."""
        return table.filter((pl.col(PANEL) == self.key) & pl.col("step").is_not_null())

    def last_rows(self, table: pl.DataFrame) -> pl.DataFrame:
        """Those at the last step."""
        rows = self.rows(table)
        return rows if rows.is_empty() else rows.filter(pl.col("step") == self.runs.steps)

    def statistic(self, statistic: Statistic) -> Statistic:
        """A claim's statistic on the panel's runs; nan if there are none."""
        return Among(PANEL, self.key, statistic)

    def chance_and_ceiling(self, table: pl.DataFrame) -> str:
        """A sentence for the caption; none until the reference has been measured."""
        found = table.filter((pl.col(PANEL) == self.key) & pl.col("step").is_null())
        if found.is_empty():
            return ""
        row = found.row(0, named=True)
        chance, ceiling = row["chance_accuracy"], row["posterior_accuracy"]
        return f"Chance {chance:.3f}, ceiling (the exact posterior) {ceiling:.3f}. "


def grammar_task(scale: Scale, letter: Literal["A", "B", "C"]) -> ShownTask:
    """The grammar's symbol over the whole sentence, over half of it, or over a quarter."""
    runs, task = scale.grammar, scale.grammar.tasks["ABC".index(letter)]
    return ShownTask(f"pcfg-{letter.lower()}", "PCFG", f"task {letter} ({task})", runs, task)


def hidden_state_task(scale: Scale, papers: Literal["6", "10"]) -> ShownTask:
    """The hidden Markov model's earlier state, or its later one."""
    runs, task = scale.hidden_markov, scale.hidden_markov.tasks[("6", "10").index(papers)]
    return ShownTask(f"hmm-{papers}", "HMM", f"task-{papers} ({task})", runs, task)


def text_task(scale: Scale, papers: Literal["QNLI", "SST-2"]) -> ShownTask:
    """The causal language's task in the place of the paper's."""
    runs, task = scale.causal_language, scale.causal_language.tasks[("QNLI", "SST-2").index(papers)]
    return ShownTask(f"causal-lm-{task}", "causal LM", task, runs, task)
