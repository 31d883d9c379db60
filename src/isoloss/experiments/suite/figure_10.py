"""Figure 10: along SGD, flatter checkpoints do better on the paper's other tasks too."""

from dataclasses import replace

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.descents import descent_panels, shown_descents
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import ShownTask, grammar_task, hidden_state_task, of_the_stand_in
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.claims import ASSOCIATION, WHY_ASSOCIATION, flatter_is_better_at_one_kl
from isoloss.experiments.statistics.along_runs import MeanWithinRuns
from isoloss.experiments.statistics.rank_correlation import PartialSlope, Ranking
from isoloss.experiments.suite.figure_4 import DESCENTS, Descents
from isoloss.experiments.suite.figure_4 import EXPERIMENT as FIGURE_4
from isoloss.results.verdict import above


def flatter_is_better(task: ShownTask) -> tuple[Claim, Claim]:
    """Figure 10's claim for one panel, and the same at one KL."""
    return (
        Claim(
            name=f"{task.key}-flatter-is-better",
            sentence=f"{task.title}: along SGD, flatter checkpoints do better.",
            paper="the trace “correlates with downstream performance” (Figure 10; no number given)",
            measure="mean over runs of Spearman(−trace, accuracy) over the checkpoints after the warm-up",
            unit="in rank correlation",
            claimed=above(ASSOCIATION),
            statistic=task.statistic(MeanWithinRuns(Ranking("trace"))),
            reason=WHY_ASSOCIATION,
            limit=1.0,
        ),
        flatter_is_better_at_one_kl(
            f"{task.key}-flatter-is-better-at-one-kl",
            f"{task.title}: among SGD's checkpoints at equal KL, flatter ones have higher accuracy.",
            "SGD's checkpoints after its warm-up, with an intercept for each run",
            task.statistic(PartialSlope("run")),
        ),
    )


def figure_10(scale: Scale, descents: Descents) -> Experiment:
    """The figure's runs, claims and panels at a scale."""
    of_figure_4 = grammar_task(scale, "C").task
    others = (
        task for task in (grammar_task(scale, "A"), grammar_task(scale, "B")) if task.task != of_figure_4
    )
    shown = (
        *((task, descents.grammar) for task in others),
        (hidden_state_task(scale, "6"), descents.hidden_markov),
    )
    return Experiment(
        name="figure-10",
        title="Are flatter checkpoints of SGD better on other tasks too?",
        question=Question.FLATNESS,
        text=(
            "The runs of Figure 4 on the paper's other tasks: A and B on the grammar, task-6 on the hidden "
            "Markov model. A task that stands in for two of the paper's is shown once. Whether the trace "
            "falls is judged with Figure 4; the question here is whether flatter checkpoints of a run do "
            "better.",
            *of_the_stand_in(scale),
        ),
        runs=tuple(run for task, descent in shown for run in shown_descents(task, descent, scale)),
        references=tuple(task.reference(scale.sizes) for task, _ in shown),
        claims=tuple(claim for task, _ in shown for claim in flatter_is_better(task)),
        panels=lambda table: descent_panels(shown, table, scale, ("flatter-is-better",)),
    )


EXPERIMENT = replace(
    FIGURE_4, plan=lambda scale: figure_10(scale, DESCENTS[scale.name]), picture=None, headline=""
)
