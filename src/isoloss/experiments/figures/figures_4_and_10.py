"""Figures 4 and 10: along SGD from a saturated model, the trace of the Hessian falls and accuracy rises."""

from isoloss.experiments.claims import Claim
from isoloss.experiments.descent_runs import DescentRuns
from isoloss.experiments.experiment import Experiment, Question
from isoloss.experiments.figures.figure_1 import ASSOCIATION, WHY_ASSOCIATION
from isoloss.experiments.figures.figure_2 import one_loss_over_steps
from isoloss.experiments.figures.shown_task import (
    ShownTask,
    descent_facts,
    descent_panels,
    measurement_facts,
    run_facts,
    task_6,
    task_10,
    task_a,
    task_b,
    task_c,
)
from isoloss.experiments.scales.paper import DESCENTS as PAPER
from isoloss.experiments.scales.scale import Scale
from isoloss.experiments.statistics.along_runs import FLATTENING, IMPROVEMENT_BY_FLATTENING, MeanWithinRuns
from isoloss.experiments.statistics.rank_correlation import Ranking
from isoloss.results.verdict import above, below

POINTS_PER_HALVING = 2.0
"""Smallest rise of accuracy, in percent points per halving of the trace, that would make flatness a cause."""
WHY_POINTS = (
    "under half of what accuracy rises along AdamW while the trace halves (5 points in pilots on the "
    "grammar): were flatness the cause, SGD's would have to bring at least that"
)
GAINS = ("1.6", "4.0")
"""The gain in accuracy as the trace falls in the paper, in percent points: PCFG, HMM (Section 4)."""


def figure_4(scale: Scale) -> Experiment:
    """The figure's runs, claims and panels at a scale."""
    shown = ((task_c(scale), scale.descents.grammar), (task_10(scale), scale.descents.hidden_markov))
    return Experiment(
        name="figure-4",
        title="Does the trace fall along SGD, and does accuracy rise?",
        question=Question.FLATNESS,
        text=(
            "Theorem 3.3: once the loss is minimal, SGD moves along the set of minimisers towards a smaller "
            "trace of the Hessian. The paper pre-trains with SGD, with a warm-up over 12 % of the steps, and "
            "follows trace and accuracy: 235M parameters on the grammar (task C), 67M on the hidden Markov "
            "model (task-10).",
            _start(scale.descents.grammar),
            drift_in_words(scale.descents.grammar),
            "The paper's right panel, OpenWebText and SST-2, is the experiment real-text-steps.",
        ),
        runs=tuple(run for task, descent in shown for run in task.descents(descent, scale)),
        references=tuple(task.reference(scale.sizes) for task, _ in shown),
        claims=tuple(
            claim
            for (task, _), gain in zip(shown, GAINS, strict=True)
            for claim in flatter_and_better(task, f"+{gain} percent points (Section 4)")
        ),
        panels=lambda table: descent_panels(shown, table, scale),
        pilot_seeds=scale.pilot_seeds,
        settings=(
            *run_facts([task for task, _ in shown]),
            *descent_facts(shown),
            *measurement_facts(scale.sizes),
        ),
        paper_numbers=tuple(
            (f"gain as the trace falls, {name}", f"{gain} percent points")
            for name, gain in zip(("PCFG", "HMM"), GAINS, strict=True)
        ),
    )


def drift_in_words(descent: DescentRuns) -> str:
    """How far Theorem 3.3 allows a run to go, and how far the paper's own numbers do."""
    paper = PAPER.grammar
    rule = descent.update_rule
    return (
        "Over k steps with learning rate η and batch size B, SGD drifts along the minima for a time η²k/4B "
        f"(Theorem 3.3): {rule.learning_rate:g}² · {descent.steps:,} / (4 · {descent.batch_size:,}) = "
        f"{descent.drift_time:.1e} here. The paper's learning rate and batch size (B.2), over "
        f"{paper.steps:,} steps, give {paper.drift_time:.1e}. On a small grammar the trace halves in a time "
        "of about 0.2 (experiment drift). In the paper's time this drift therefore has no measurable effect: "
        "what changes there is a loss that is still falling."
    )


def _start(descent: DescentRuns) -> str:
    match descent.start:
        case "last checkpoint":
            return (
                "Here SGD starts from the last checkpoints of AdamW, without dropout or weight decay, so "
                "that only the gradient of the loss and its noise move the models. The first checkpoint is "
                "taken after one step and shows where SGD begins."
            )
        case "fresh weights":
            return "Here too SGD starts from fresh weights, without dropout or weight decay."


def flatter_and_better(task: ShownTask, paper_gain: str) -> tuple[Claim, ...]:
    """Figure 4's claims for one panel; `paper_gain` is the rise of accuracy stated in the paper."""
    return (
        one_loss_over_steps(task, "“after the validation pre-training loss converges” (Section 4)"),
        Claim(
            name=f"{task.key}-flatter",
            sentence=f"{task.title}: along SGD the trace of the Hessian falls.",
            paper="“a clear decreasing trend”, as Theorem 3.3 predicts (Section 4; no number given)",
            measure="mean over runs of the Theil-Sen slope of log2(trace) per doubling of steps",
            unit="doublings per doubling",
            claimed=below(0.0),
            statistic=task.statistic(FLATTENING),
        ),
        Claim(
            name=f"{task.key}-better",
            sentence=f"{task.title}: as the trace falls along SGD, accuracy rises.",
            paper=paper_gain,
            measure="mean over runs of the Theil-Sen slope of accuracy per halving of the trace",
            unit="percent points per halving",
            claimed=above(POINTS_PER_HALVING),
            statistic=task.statistic(IMPROVEMENT_BY_FLATTENING),
            reason=WHY_POINTS,
        ),
    )


def flatter_is_better(task: ShownTask) -> Claim:
    """Figure 10's claim for one panel."""
    return Claim(
        name=f"{task.key}-flatter-is-better",
        sentence=f"{task.title}: along SGD, flatter checkpoints do better.",
        paper="the trace “correlates with downstream performance” (Figure 10; no number given)",
        measure="mean over runs of Spearman(−trace, accuracy) over the checkpoints after the warm-up",
        unit="",
        claimed=above(ASSOCIATION),
        statistic=task.statistic(MeanWithinRuns(Ranking("trace"))),
        reason=WHY_ASSOCIATION,
        limit=1.0,
    )


def figure_10(scale: Scale) -> Experiment:
    """The figure's runs, claims and panels at a scale."""
    shown = (
        (task_a(scale), scale.descents.grammar),
        (task_b(scale), scale.descents.grammar),
        (task_6(scale), scale.descents.hidden_markov),
    )
    return Experiment(
        name="figure-10",
        title="Are flatter checkpoints of SGD better on other tasks too?",
        question=Question.FLATNESS,
        text=(
            "The runs of Figure 4 on the paper's other tasks: A and B on the grammar, task-6 on the hidden "
            "Markov model. Whether the trace falls is judged with Figure 4; the question here is whether "
            "flatter checkpoints of a run do better.",
        ),
        runs=tuple(run for task, descent in shown for run in task.descents(descent, scale)),
        references=tuple(task.reference(scale.sizes) for task, _ in shown),
        claims=tuple(flatter_is_better(task) for task, _ in shown),
        panels=lambda table: descent_panels(shown, table, scale),
        pilot_seeds=scale.pilot_seeds,
        settings=(
            *run_facts([task for task, _ in shown]),
            *descent_facts(shown),
            *measurement_facts(scale.sizes),
        ),
    )
