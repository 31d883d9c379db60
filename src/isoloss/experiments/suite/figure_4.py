"""Figures 4 and 10: along SGD from a saturated model, the trace of the Hessian falls and accuracy rises."""

from dataclasses import dataclass, replace

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.descents import DescentRuns, descent_panels, shown_descents, start_in_words
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import ShownTask, grammar_task, hidden_state_task
from isoloss.experiments.scale import FRESH_SEEDS, Scale
from isoloss.experiments.schedules import Schedule
from isoloss.experiments.shared.claims import flatter_is_better_at_one_kl, later_is_better, later_is_flatter
from isoloss.experiments.shared.language_runs import at_scales, rounds_at
from isoloss.experiments.statistics.along_runs import FLATTENING, IMPROVEMENT, IMPROVEMENT_BY_FLATTENING
from isoloss.experiments.statistics.rank_correlation import PartialSlope
from isoloss.experiments.suite.figure_2 import kl_is_constant_over_steps, loss_is_constant_over_steps
from isoloss.pretraining.descent import SGD
from isoloss.pretraining.specification import log_spaced_steps
from isoloss.results.verdict import above


@dataclass(frozen=True)
class Descents:
    """SGD on each of the languages that the paper runs it on."""

    grammar: DescentRuns
    hidden_markov: DescentRuns


_PACE = Schedule(0.1, 32)
"""One of the drift's."""

_DESCENT = DescentRuns(
    48,
    SGD(_PACE.learning_rate),
    _PACE.batch_size,
    steps=4000,
    checkpoint_steps=(1, *log_spaced_steps(500, 4000, per_doubling=3)),
    averaging_horizon=_PACE.horizon,
)
LAPTOP = Descents(grammar=_DESCENT, hidden_markov=_DESCENT)
"""A rate and a batch by which SGD drifts far enough within these steps; docs/pilots.md has why."""

_STEPS = (1, *log_spaced_steps(1000, 8000, per_doubling=3))
_LONGER = replace(_DESCENT, steps=8000, checkpoint_steps=_STEPS)
NIGHT = Descents(grammar=replace(_LONGER, width=32), hidden_markov=replace(_LONGER, width=64))
"""Twice that time."""

_SHORT = DescentRuns(16, SGD(0.01), batch_size=32, steps=20, checkpoint_steps=(1, 10, 20))
SMOKE = Descents(grammar=_SHORT, hidden_markov=replace(_SHORT, width=8))
_DESCENT_STEPS = tuple(15_000 * number for number in range(1, 9))
PAPER = Descents(
    grammar=DescentRuns(1024, SGD(), 4096, 120_000, _DESCENT_STEPS, start="fresh weights"),
    hidden_markov=DescentRuns(768, SGD(), 4096, 120_000, _DESCENT_STEPS, start="fresh weights"),
)
"""B.2: pre-training by SGD, at 1e-3 after a warm-up of 12 % of the steps. 235M parameters on the grammar, the
seventh size of Table 3; 67M on the hidden Markov model, the fourth of the listed LSTMs. The paper gives no
steps."""

_GPU = DescentRuns(
    192,
    SGD(0.2),
    512,
    steps=15_000,
    checkpoint_steps=(1, *log_spaced_steps(3_750, 15_000, per_doubling=3)),
    averaging_horizon=400,
)
GPU = Descents(grammar=_GPU, hidden_markov=replace(_GPU, width=256))
"""The paper's rate and batch would cause no visible drift (η²k/4B = 7e-7); these drift as long as the
laptop's, with batches half as large as could be, to take half the sentences."""

DESCENTS = at_scales(SMOKE, LAPTOP, NIGHT, GPU, PAPER)


def drift_in_words(descent: DescentRuns) -> str:
    """How far Theorem 3.3 allows a run to go, and how far the paper's own numbers do."""
    paper = DESCENTS["paper"].grammar
    rule = descent.update_rule
    return (
        "Over k steps with learning rate η and batch size B, SGD drifts along the minima for a time η²k/4B "
        f"(Theorem 3.3): {rule.learning_rate:g}² · {descent.steps:,} / (4 · {descent.batch_size:,}) = "
        f"{descent.drift_time:.1e} here. The paper's learning rate and batch size (B.2), over "
        f"{paper.steps:,} steps, give {paper.drift_time:.1e}. On a small grammar the trace halves in a time "
        "of about 0.2 (experiment drift). In the paper's time this drift therefore has no measurable effect: "
        "what changes there is a loss that is still falling."
    )


POINTS_PER_HALVING = 2.0
"""Smallest rise of accuracy, in points per halving of the trace, that would make flatness a cause."""
WHY_POINTS = (
    "under half of what accuracy rises along AdamW while the trace halves (5 points in pilots on the "
    "grammar): were flatness the cause, SGD's would have to bring at least that"
)
GAINS = ("1.6", "4.0")
"""The gain in accuracy as the trace falls in the paper, in percentage points: PCFG, HMM (Section 4)."""


def figure_4(scale: Scale, descents: Descents) -> Experiment:
    """The figure's runs, claims and panels at a scale."""
    shown = (
        (grammar_task(scale, "C"), descents.grammar),
        (hidden_state_task(scale, "10"), descents.hidden_markov),
    )
    return Experiment(
        name="figure-4",
        gallery=7,
        title="Does the trace fall along SGD, and does accuracy rise?",
        question=Question.FLATNESS,
        text=(
            "Theorem 3.3: once the loss is minimal, SGD moves along the set of minimisers towards a smaller "
            "trace of the Hessian. The paper pre-trains with SGD, with a warm-up over 12 % of the steps, and "
            "follows trace and accuracy: 235M parameters on the grammar (task C), 67M on the hidden Markov "
            "model (task-10).",
            start_in_words(descents.grammar),
            drift_in_words(descents.grammar),
            "The paper's right panel, OpenWebText and SST-2, is the experiment real-text-steps.",
        ),
        runs=tuple(run for task, descent in shown for run in shown_descents(task, descent, scale)),
        references=tuple(task.reference(scale.sizes) for task, _ in shown),
        claims=tuple(
            claim
            for (task, _), gain in zip(shown, GAINS, strict=True)
            for claim in flatter_and_better(task, f"+{gain} percentage points (Section 4)")
        ),
        panels=lambda table: descent_panels(shown, table, scale, ("flatter", "better")),
        paper_numbers=tuple(
            (f"gain as the trace falls, {name}", f"{gain} percentage points")
            for name, gain in zip(("PCFG", "HMM"), GAINS, strict=True)
        ),
    )


def flatter_and_better(task: ShownTask, paper_gain: str) -> tuple[Claim, ...]:
    """Figure 4's claims for one panel; `paper_gain` is the rise of accuracy stated in the paper."""
    return (
        loss_is_constant_over_steps(task, "“after the validation pre-training loss converges” (Section 4)"),
        kl_is_constant_over_steps(task),
        later_is_flatter(
            f"{task.key}-flatter",
            f"{task.title}: along SGD the trace of the Hessian falls.",
            "“a clear decreasing trend”, as Theorem 3.3 predicts (Section 4; no number given)",
            task.statistic(FLATTENING),
        ),
        later_is_better(
            f"{task.key}-better",
            f"{task.title}: along SGD accuracy rises.",
            paper_gain,
            task.statistic(IMPROVEMENT),
            of="accuracy",
        ),
        Claim(
            name=f"{task.key}-better-by-two-points",
            sentence=f"{task.title}: along SGD accuracy rises by two percentage points as the trace halves.",
            paper=paper_gain,
            measure="mean over runs of the Theil-Sen slope of accuracy per halving of the trace",
            unit="percentage points per halving of the trace",
            claimed=above(POINTS_PER_HALVING),
            statistic=task.statistic(IMPROVEMENT_BY_FLATTENING),
            reason=WHY_POINTS,
        ),
        flatter_is_better_at_one_kl(
            f"{task.key}-flatter-is-better-at-one-kl",
            f"{task.title}: among SGD's checkpoints at equal KL, flatter ones have higher accuracy.",
            "SGD's checkpoints after its warm-up, with an intercept for each run",
            task.statistic(PartialSlope("run")),
        ),
    )


EXPERIMENT = Design(
    lambda scale: figure_4(scale, DESCENTS[scale.name]),
    registered="b860d6db0c56933dcc4595d62ae8cdc24ab2fe30",
    seeds=FRESH_SEEDS,
    earlier_seeds=rounds_at(
        laptop="111-115; 171-175", night="201-210; 201-210, 241-250; 201-210, 251-266; 201-210, 351-390"
    ),
    picture=Picture("pcfg-c", "Loss, trace and accuracy along SGD"),
    of_the_paper=True,
    headline="pcfg-c-better",
)
