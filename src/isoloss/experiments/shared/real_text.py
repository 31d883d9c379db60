"""How transformers are pre-trained on real text at each scale, and what they are tested on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from isoloss.corpora.fetched_package import default_cache
from isoloss.corpora.labelled_texts import TaskSizes, TaskSource
from isoloss.experiments.experiment import PlannedReference
from isoloss.experiments.planned_run import CorpusPlan, Labels, MeasuredAt, PlannedRun
from isoloss.experiments.shared.language_runs import LanguageRuns, runs_of_sizes, variants_of
from isoloss.measurements.accuracy import AccuracyQuantity, FineTuning, LinearProbe
from isoloss.measurements.corpus_loss import CorpusLossQuantity, TrainingLossQuantity
from isoloss.measurements.fine_tuning import FineTuningSettings
from isoloss.measurements.linear_probe import ProbeSettings
from isoloss.measurements.on_sentences.traces import TraceQuantity
from isoloss.measurements.references import MajorityReference
from isoloss.measurements.task_texts import TaskTexts
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.pretraining.flatness_regularised import SAM

ADAMW = "AdamW"
BARE = "-dropout-WD"
SAM_RULE = "-dropout-WD+SAM"
"""The paper's names of the three ways to pre-train on BookCorpus (Tables 1 and 2)."""


CorpusRuns = LanguageRuns[CorpusPlan, PreLayerNormTransformer]
"""One transformer on a corpus, which has no tasks of its own."""


@dataclass(frozen=True)
class TextSizes:
    """How many validation sequences and texts each quantity is measured on, and one seed for all.

    Without `fine_tuning` compared models are probed as those are that are followed over their steps.
    """

    loss_sequences: int
    trace_sequences: int
    texts: TaskSizes
    probe: ProbeSettings = ProbeSettings()  # noqa: RUF009  (frozen)
    fine_tuning: FineTuningSettings | None = FineTuningSettings()  # noqa: RUF009  (frozen)
    seed: int = 20230701

    def loss(self) -> CorpusLossQuantity:
        """The validation loss."""
        return CorpusLossQuantity(self.loss_sequences, self.seed + 1)

    def training_loss(self) -> TrainingLossQuantity:
        """The loss on as many sequences that models learn from."""
        return TrainingLossQuantity(self.loss_sequences, self.seed + 4)

    def trace(self) -> TraceQuantity:
        """The trace of the Hessian."""
        return TraceQuantity(self.trace_sequences, self.seed + 2)

    def probe_of(self, task: TaskSource, column: str) -> AccuracyQuantity:
        """A linear probe's accuracy on a task."""
        return AccuracyQuantity(TaskTexts(task, self.texts), LinearProbe(self.probe), column)

    def accuracy_of(self, task: TaskSource, column: str) -> AccuracyQuantity:
        """The accuracy by which compared models are told apart: a fine-tuned model's, or a probe's."""
        if self.fine_tuning is None:
            return self.probe_of(task, column)
        return AccuracyQuantity(TaskTexts(task, self.texts), FineTuning(self.fine_tuning), column)


@dataclass(frozen=True)
class ComparedTask:
    """A task in the place of the one that the paper calls so."""

    papers: str
    source: TaskSource

    @property
    def column(self) -> str:
        """What its accuracy is called in a table.

        >>> from isoloss.corpora.glue import GlueTask
        >>> ComparedTask("SST-2", GlueTask("sst2")).column
        'accuracy_sst_2'
        """
        return f"accuracy_{self.papers.lower().replace('-', '_')}"


@dataclass(frozen=True)
class RealTextRuns:
    """`followed` is Figures 2's and 4's run, `compared` Tables 1's and 2's runs on BookCorpus.

    The tasks are in the form of SST-2, QNLI and RTE; the last two are measured where they are at hand.
    `chosen_late` says, for the page, which setting of those compared was chosen after results were seen.
    """

    followed: CorpusRuns
    compared: CorpusRuns
    sentiment: TaskSource
    questions: TaskSource
    entailment: TaskSource
    sizes: TextSizes
    chosen_late: str = ""

    @property
    def tasks(self) -> tuple[ComparedTask, ...]:
        """What the compared models are tested on: tasks of pairs only where nothing is to be fetched.

        Hundreds of megabytes are fetched for those who ask for them by name: see `isoloss task`.
        """
        cache = default_cache()
        sentiment, *pairs = self.every_task
        return (sentiment, *(task for task in pairs if task.source.is_at_hand(cache)))

    @property
    def every_task(self) -> tuple[ComparedTask, ...]:
        """Those of pairs too, at hand or not."""
        return (
            ComparedTask("SST-2", self.sentiment),
            ComparedTask("QNLI", self.questions),
            ComparedTask("RTE", self.entailment),
        )


def followed_runs(
    runs: CorpusRuns, seeds: Sequence[int], measured: tuple[MeasuredAt, ...]
) -> tuple[PlannedRun, ...]:
    """AdamW with each seed."""
    return variants_of(runs_of_sizes(runs, seeds, measured), {ADAMW: {}})


def compared_runs(
    runs: CorpusRuns, seeds: Sequence[int], measured: tuple[MeasuredAt, ...]
) -> tuple[PlannedRun, ...]:
    """Each way to pre-train with each seed: runs of one seed see the same sequences and masks."""
    (model,) = runs.architectures
    bare, rule = replace(model, dropout=0.0), replace(runs.update_rule, weight_decay=0.0)
    variants: dict[str, dict[str, object]] = {
        ADAMW: {},
        BARE: {"architecture": bare, "update_rule": rule},
        SAM_RULE: {"architecture": bare, "update_rule": SAM(optimiser=rule)},
    }
    return variants_of(runs_of_sizes(runs, seeds, measured), variants)


def majority(runs: CorpusRuns, task: TaskSource, sizes: TextSizes, labels: Labels = ()) -> PlannedReference:
    """The majority baseline of a task, a row of the table."""
    reference = MajorityReference(task, sizes.texts)
    return PlannedReference(
        f"majority, {task.name}", runs.language, reference, (*labels, ("task", task.name))
    )


def majority_in_words(table: pl.DataFrame) -> str:
    """A sentence for a caption on every task whose baseline has been measured."""
    if "majority_accuracy" not in table.columns:
        return ""
    return "".join(
        f"{row['task']}: the most common class is right {row['majority_accuracy']:.1%} of the time on "
        f"{row['test_texts']:,} test texts; {row['left_out']:,} more also appear in the corpus's validation "
        "part and are left out. "
        for row in table.filter(pl.col("majority_accuracy").is_not_null()).iter_rows(named=True)
    )
