"""Whether accuracy depends on choices of the released pipeline."""

from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.design import Design
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import BY_SEED, KL
from isoloss.experiments.planned_run import PlannedRun, measured_at
from isoloss.experiments.scale import Scale, grammar_runs
from isoloss.experiments.shared.language_runs import rounds_at
from isoloss.experiments.statistics.along_runs import Among, mean_gain
from isoloss.experiments.statistics.same_loss import mean_over_pairs, percentage_points
from isoloss.experiments.statistics.seed_bootstrap import Statistic
from isoloss.measurements.accuracy import AccuracyQuantity, LinearProbe
from isoloss.measurements.linear_probe import released_probe
from isoloss.objectives.masked import ManyMasksObjective
from isoloss.panels import Axis, Categories, Panel
from isoloss.results.verdict import within

TEXT, MASKS, DECAY = "the text's", "15 % masks, five copies", "linear decay"
"""How a run is trained: as in the paper's text, or with one of the pipeline's choices."""
CHOICE, ACCURACY, RELEASED = "choice", "accuracy", "released_probe_accuracy"
SCHEDULE = "its whole schedule"
COPIES = 5


WITH_SCHEDULE = ("gpu", "paper")
"""The scales whose batches are the paper's, so that the schedule's numbers mean what they do there."""
RELEASED_RATE, RELEASED_STEPS, RELEASED_WARM_UP = 5e-4, 25_000, 3_333
"""The pipeline's schedule; after the warm-up the rate falls linearly to 0."""
OWN = "the released code does this; the text does not say whether it matters"


def gain_of_choice(choice: str) -> Statistic:
    """Mean over seeds of final accuracy with `choice` minus that of the text's run; nan without pairs."""
    return partial(mean_over_pairs, _gain_at_the_end, rule=choice, reference=TEXT, label=CHOICE)


def _gain_at_the_end(run: pl.DataFrame, reference: pl.DataFrame) -> float:
    return percentage_points(run[ACCURACY][-1], reference[ACCURACY][-1])


def _changes_little(name: str, sentence: str, measure: str, statistic: Statistic) -> Claim:
    return Claim(
        name=name,
        sentence=sentence,
        paper=OWN,
        measure=measure,
        unit="percentage points",
        claimed=within(1.0),
        statistic=statistic,
        reason="a fraction of the gain with size in the paper, 2.0 to 6.9 points",
    )


CLAIMS = (
    _changes_little(
        "masks-change-little",
        "Masking 15 % of the words, in five copies of each sentence, hardly changes accuracy.",
        "mean over seeds of probe accuracy at the last step, 15 % masked minus one mask per sentence",
        gain_of_choice(MASKS),
    ),
    _changes_little(
        "decay-changes-little",
        "A learning rate that decays linearly after the warm-up hardly changes accuracy.",
        "mean over seeds of probe accuracy at the last step, decayed minus constant rate",
        gain_of_choice(DECAY),
    ),
    _changes_little(
        "released-probe-changes-little",
        "Probing as in the released code rather than as in the paper's text hardly changes accuracy.",
        "mean over seeds of accuracy at the last step, the released probe's minus the text's",
        Among(CHOICE, TEXT, mean_gain(RELEASED, over=ACCURACY)),
    ),
)


SCHEDULE_CLAIM = _changes_little(
    "schedule-changes-little",
    "Accuracy is nearly the same with the pipeline's rate, number of steps and warm-up.",
    "mean over seeds of probe accuracy at the last step, the pipeline's schedule minus the text's",
    gain_of_choice(SCHEDULE),
)


def ablations(scale: Scale) -> Experiment:
    """The compared size trained as in the text, and with each of the pipeline's choices."""
    task, grammar = scale.grammar.tasks[1], scale.grammar
    probe = scale.sizes.probe_of(task)
    usual = scale.sizes.probe
    released_settings = replace(released_probe(), seeds=usual.seeds, epochs=usual.epochs)
    released = replace(probe, head=LinearProbe(released_settings), column=RELEASED)
    masked = max(1, round(0.15 * grammar.language.maximum_length))
    return Experiment(
        name="ablations",
        title="Do the released pipeline's own choices matter?",
        question=Question.ALGORITHM,
        text=(
            "The authors' released code differs from the paper's text: it masks 15 % of the words in five "
            "copies of each sentence, decays the learning rate linearly, and trains probes with dropout of "
            "0.1 on the features, minibatches of 512 and a learning rate that decays after 50 steps. "
            "Everywhere else, this reproduction follows the text. Here each choice is made on its own, with "
            "all else as in Figure 1.",
            "The learning rate decays to 0 over the length of the run. At the scales gpu and paper there is "
            "also the pipeline's whole schedule: a rate of 5e-4, 25,000 steps, 3,333 of them warm-up. A "
            "batch has the same number of masked rows in either case, so with five copies it holds a fifth "
            "of the sentences. 15 % of "
            f"{grammar.language.maximum_length} words, rounded, is {masked}.",
            "Where a claim holds, results obtained with the text's choice can stand in for the pipeline's, "
            "on this language and at this training length. Where it does not, no accuracy should be quoted "
            "without naming the choice behind it.",
        ),
        runs=_runs(scale, probe, released),
        claims=(*CLAIMS, SCHEDULE_CLAIM) if scale.name in WITH_SCHEDULE else CLAIMS,
        panels=_panels,
        paper_numbers=(("of each choice", "none"),),
    )


def _runs(scale: Scale, probe: AccuracyQuantity, released: AccuracyQuantity) -> tuple[PlannedRun, ...]:
    grammar = scale.grammar
    architecture, last = grammar.architectures[scale.compared.size], grammar.checkpoint_steps[-1:]
    measured = measured_at(last, scale.sizes.loss(), probe, released)
    text = [run for run in grammar_runs(scale, measured) if run.architecture == architecture]
    choices: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("text", TEXT, {}),
        ("masks", MASKS, {"objective": ManyMasksObjective(copies=COPIES)}),
        ("decay", DECAY, {"update_rule": replace(grammar.update_rule, decay="linear")}),
    )
    if scale.name in WITH_SCHEDULE:
        end = (RELEASED_STEPS,)
        changed = {
            "update_rule": replace(
                grammar.update_rule,
                learning_rate=RELEASED_RATE,
                warm_up_steps=RELEASED_WARM_UP,
                decay="linear",
            ),
            "measured": measured_at(end, scale.sizes.loss(), probe, released),
            "steps": RELEASED_STEPS,
            "checkpoint_steps": end,
            "saturated_from": 1,
        }
        choices = (*choices, ("schedule", SCHEDULE, changed))
    return tuple(
        replace(run, name=f"{name}-seed-{run.seed}", labels=((CHOICE, choice),), **changed)
        for name, choice, changed in choices
        for run in text
    )


def _panels(table: pl.DataFrame) -> tuple[Panel, ...]:
    rows = table.filter(pl.col("step").is_not_null())
    caption = (
        "One dot per run, at its last step. Bars of accuracy: one standard deviation over probe seeds; of "
        "KL: one standard error over sentences."
    )
    shown = [
        Axis(ACCURACY, "accuracy, probe as in the text", f"{ACCURACY}_deviation"),
        Axis(RELEASED, "accuracy, released probe", f"{RELEASED}_deviation"),
        KL,
    ]
    charts = tuple(Categories(CHOICE, axis, BY_SEED) for axis in shown if axis.column in rows.columns)
    return (Panel("choices", "Each choice on its own", caption, charts, rows),) if charts else ()


EXPERIMENT = Design(
    ablations,
    registered="6e0939cbec00d4abbc5976da5a47bb2bfecf347b",
    earlier_seeds=rounds_at(laptop="111-115"),
)
