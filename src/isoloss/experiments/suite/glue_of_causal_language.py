"""Figures 2 (b), 3 (c), 8 on texts in the form of SST-2 and QNLI: students of a causal model's language."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from isoloss.errors import BadInput
from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.design import Design
from isoloss.experiments.experiment import Experiment, PlannedReference
from isoloss.experiments.figures import BY_WIDTH, LOSS, STEP
from isoloss.experiments.planned_run import MeasuredAt
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.claims import premise_of_loss
from isoloss.experiments.shared.language_runs import rounds_at, runs_of_sizes, seeds_at
from isoloss.experiments.shared.real_text import ComparedTask
from isoloss.experiments.statistics.along_runs import (
    MeanOverSeeds,
    MeanWithinRuns,
    Slope,
    in_points,
    mean_gain,
    theil_sen_slope,
)
from isoloss.experiments.statistics.seed_bootstrap import Frames, Statistic
from isoloss.experiments.teacher import TeachersLanguage
from isoloss.measurements.accuracy import AccuracyQuantity, LinearProbe
from isoloss.measurements.quantity import Quantity
from isoloss.measurements.references import BeforeTraining, ControlQuantity, TextControls
from isoloss.measurements.student_task_texts import Policy, StudentTaskTexts
from isoloss.panels import Axis, Categories, Lines, Panel
from isoloss.results.verdict import above

PAPERS_TASKS = ("SST-2", "QNLI")
CONVERGED = 0.01
"""Largest share of the loss that may be left to learn for anything to be judged."""
TYPICAL_TOKENS = {"SST-2": 24, "QNLI": 48}
"""About the tokens of a text of the form, by a tokenizer of real text: a film critic's sentence; a question
and a sentence beside it. The language's own tokenizer makes more of them. A student has no positions beyond
its language's sentences, and texts are cut to them."""
OTHER_POLICIES: tuple[Policy, ...] = ("resegment", "mask")
PAPER = "accuracy rises with steps and with size (Figures 2, 3 and 8; QNLI +2.0 points by size)"


def share_to_learn(runs: Frames) -> float:
    """Mean over runs of KL(distribution || model) at the last checkpoint over the loss; nan without runs."""
    shares = [float(run["kl"][-1] / run["loss"][-1]) for run in runs]
    return float(np.mean(shares)) if shares else math.nan


@dataclass(frozen=True)
class WhereConverged:
    """The statistic if `share_to_learn` is below CONVERGED; otherwise nan, and nothing is judged."""

    statistic: Statistic

    def __call__(self, runs: Frames) -> float:
        return self.statistic(runs) if share_to_learn(runs) < CONVERGED else math.nan


@dataclass(frozen=True)
class GainOverWidths:
    """The slope of the gain per doubling of width among one seed's runs; nan for one width."""

    gain: Statistic

    def __call__(self, runs: Frames) -> float:
        widths = np.log2([run["width"][0] for run in runs])
        return theil_sen_slope(widths, np.array([self.gain([run]) for run in runs]))


def glue_of_causal_language(scale: Scale) -> Experiment:
    """The causal language's students of all sizes, probed on texts that are not from the language.

    Raises BadInput if the language has no teacher, and so no whole tokenizer.
    """
    runs = scale.causal_language
    tasks = tuple(task for task in scale.real_text.tasks if task.papers in PAPERS_TASKS)
    saturated = tuple(step for step in runs.checkpoint_steps if step >= runs.saturated_from)
    measured = [MeasuredAt(scale.sizes.loss(runs.evaluated), saturated)]
    references = []
    for task in tasks:
        probe = _probe(scale, task)
        measured.append(MeasuredAt(probe, saturated))
        beside: list[Quantity] = [_probe(scale, task, policy) for policy in OTHER_POLICIES]
        beside.append(ControlQuantity(probe, BeforeTraining(), f"{task.column}_untrained"))
        measured += [MeasuredAt(quantity, saturated[-1:]) for quantity in beside]
        controls = TextControls(probe, task.column)
        references.append(PlannedReference(f"controls of {task.source.name}", runs.language, controls))
    return Experiment(
        name="glue-of-causal-language",
        title="Do later and larger students of a causal language model do better on real text?",
        question=Question.LATER,
        text=(
            "In Figures 2 (b), 3 (c) and 8 the paper trains models on sentences of OPT's 2,000 most frequent "
            "tokens and probes them on SST-2 and QNLI. The restriction applies only to what is generated: "
            "the student keeps all of the teacher's tokens and reads ordinarily tokenised text. Tokens that "
            "are never generated keep embeddings close to their initialisation, so much of what a probe "
            "finds does not come from training. Each model is therefore shown next to the same model "
            "untrained, and next to a bag of the same tokens.",
            "Claims are about the gain over the untrained model, where the student has come close to the "
            "distribution; where it has not, nothing is judged. Besides the authors' treatment of tokens "
            "that are never generated, two others are shown: texts tokenised only with the merges that lead "
            "to generated words, and texts in which such tokens are replaced by [MASK].",
            "A student has no positions beyond its language's sentences, so texts are cut to them: to "
            f"{runs.language.maximum_length} tokens here, where a sentence in the form of SST-2 has about "
            f"{TYPICAL_TOKENS['SST-2']} and a pair in the form of QNLI about {TYPICAL_TOKENS['QNLI']}, by a "
            "tokenizer of real text. Where "
            "texts are cut shorter than that, the claims about their form are withdrawn: a probe of what is "
            "left of them cannot answer, whatever its accuracy. The paper's sentences of 24 tokens are too "
            "short for QNLI, which it does not mention; captions say how many texts were cut.",
            "A gain over the untrained model is what training on the language put into the student; accuracy "
            "alone may come from the tokens themselves.",
        ),
        runs=runs_of_sizes(runs, scale.seeds, tuple(measured)),
        references=tuple(references),
        claims=_claims(tasks, runs.language.maximum_length),
        panels=lambda table: _panels(table, tasks),
        paper_numbers=(("QNLI, gain by size", "2.0 percentage points"),),
    )


def _probe(scale: Scale, task: ComparedTask, policy: Policy = "untrained") -> AccuracyQuantity:
    sizes, tokenizer = scale.real_text.sizes, _teachers(scale).whole_tokenizer
    column = task.column if policy == "untrained" else f"{task.column}_{policy}"
    examples = StudentTaskTexts(task.source, sizes.texts, tokenizer, policy)
    return AccuracyQuantity(examples, LinearProbe(sizes.probe), column)


def _teachers(scale: Scale) -> TeachersLanguage:
    plan = scale.causal_language.language
    if not isinstance(plan, TeachersLanguage):
        raise BadInput("the scale's causal language has no teacher whose tokenizer could read texts")
    return plan


def _claims(tasks: Sequence[ComparedTask], longest: int) -> tuple[Claim, ...]:
    premise = premise_of_loss(
        "near-the-law",
        sentence=("At the end of training, KL(distribution || model) is small beside the loss."),
        paper="“even with almost the same pre-training loss” (Figure 3; no number given)",
        measure="mean over runs of KL(distribution || model) at the last checkpoint over the loss there",
        bound=CONVERGED,
        statistic=share_to_learn,
        reason="with more left to learn, later or larger models may do better because their loss is lower",
    )
    return (premise, *(claim for task in tasks for claim in _claims_of(task, longest)))


def cannot_answer(papers: str, longest: int) -> str:
    """Why students with so many positions say nothing of the paper's task; empty if they do.

    >>> cannot_answer("SST-2", 24), cannot_answer("QNLI", 24)
    ('', 'texts are cut to 24 tokens, and those in the form of QNLI have about 48')
    """
    typical = TYPICAL_TOKENS[papers]
    if longest >= typical:
        return ""
    return f"texts are cut to {longest} tokens, and those in the form of {papers} have about {typical}"


def _claims_of(task: ComparedTask, longest: int) -> tuple[Claim, ...]:
    gain = mean_gain(task.column, over=f"{task.column}_untrained")
    name, key = task.papers, task.papers.lower()
    of_effects = (
        (
            "gains",
            f"{name} form: trained students do better than untrained ones.",
            "mean over runs of accuracy at the last checkpoint, minus the untrained model's",
            "percentage points",
            gain,
        ),
        (
            "later-is-better",
            f"{name} form: later checkpoints do better.",
            "mean over runs of the Theil-Sen slope of probe accuracy per doubling of steps",
            "percentage points per doubling of steps",
            MeanWithinRuns(Slope(in_points(task.column))),
        ),
        (
            "larger-gains-more",
            f"{name} form: larger students gain more from training.",
            "mean over seeds of the slope of that gain at the last checkpoint per doubling of width",
            "percentage points per doubling of width",
            MeanOverSeeds(GainOverWidths(gain)),
        ),
    )
    return tuple(
        Claim(
            name=f"{key}-{what}",
            sentence=sentence,
            paper=PAPER,
            measure=f"{measure}; undefined where KL is 1 % of the loss or more",
            unit=unit,
            claimed=above(0.0),
            statistic=WhereConverged(statistic),
            withdrawn=cannot_answer(task.papers, longest),
        )
        for what, sentence, measure, unit, statistic in of_effects
    )


def _panels(table: pl.DataFrame, tasks: Sequence[ComparedTask]) -> tuple[Panel, ...]:
    rows = table.filter(pl.col("step").is_not_null())
    return tuple(
        panel for task in tasks if task.column in rows.columns for panel in _panels_of(task, table, rows)
    )


def _panels_of(task: ComparedTask, table: pl.DataFrame, rows: pl.DataFrame) -> tuple[Panel, ...]:
    accuracy = Axis(task.column, f"{task.source.name}: accuracy", f"{task.column}_deviation")
    opening = f"{_converged(rows)}{_controls(task, table)}"
    steps = Panel(
        f"{task.column}-steps",
        f"{task.source.name}: over pre-training steps",
        f"{opening}One line per run. Bars of accuracy: one standard deviation over probe seeds.",
        (Lines(STEP, LOSS, BY_WIDTH, "run"), Lines(STEP, accuracy, BY_WIDTH, "run")),
        rows,
    )
    ends = rows.filter(pl.col("step") == pl.col("step").max())
    ways = {task.column: "as they are", f"{task.column}_untrained": "untrained model"}
    ways |= {f"{task.column}_{policy}": policy for policy in OTHER_POLICIES}
    beside = pl.concat(
        [
            ends.select("width", pl.lit(name).alias("read"), pl.col(column).alias("accuracy"))
            for column, name in ways.items()
            if column in ends.columns
        ]
    )
    caption = (
        f"{opening}One dot per run, at its last step. “As they are” reads tokens that were never generated "
        "with embeddings close to their initialisation, “resegment” cuts them into generated words and "
        "bytes, “mask” replaces them by [MASK]."
    )
    chart = Categories("read", Axis("accuracy", f"{task.source.name}: accuracy"), BY_WIDTH)
    return steps, Panel(
        f"{task.column}-controls", f"{task.source.name}: next to its controls", caption, (chart,), beside
    )


def _converged(rows: pl.DataFrame) -> str:
    if not {"kl", "loss"} <= set(rows.columns):
        return ""
    ends = [run.drop_nulls(["kl", "loss"]).tail(1) for run in rows.partition_by("run")]
    share = share_to_learn([end for end in ends if len(end)])
    if not share >= CONVERGED:
        return f"At the end {share:.2%} of the loss is left to learn. "
    return (
        f"The students have not converged: {share:.2%} of the loss is left to learn at the end, so nothing "
        "is judged. "
    )


def _controls(task: ComparedTask, table: pl.DataFrame) -> str:
    names = [
        f"{task.column}_{name}" for name in ("majority", "bag", "coverage", "coverage_resegmented", "longer")
    ]
    if names[0] not in table.columns:
        return ""
    majority, bag, coverage, anew, longer = (table[name].drop_nulls()[0] for name in names)
    return (
        f"A bag of the same tokens has an accuracy of {bag:.1%}, the most common class {majority:.1%}. Of "
        f"the test texts' tokens, {coverage:.1%} are words of the language ({anew:.1%} after "
        f"re-segmentation), and {longer:.1%} of the texts are longer than its sentences and truncated. "
    )


EXPERIMENT = Design(
    glue_of_causal_language,
    registered="bf18e408c1a05a59532e72ff65e53554ea5b2e20",
    seeds=seeds_at(laptop="161-165", night="271-288"),
    earlier_seeds=rounds_at(night="201-210"),
    of_the_paper=True,
    headline="qnli-later-is-better",
)
