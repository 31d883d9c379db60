"""Table 2: flatness and accuracy by algorithm, at the loss that the adversary and AdamW share."""

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.design import Design
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.grammar_runs import ADAMW, adamw_runs, rule_runs
from isoloss.experiments.scale import Scale
from isoloss.experiments.statistics.same_loss import (
    doublings,
    mean_at_same_loss,
    percentage_points,
)
from isoloss.experiments.suite.table_1 import ADVERSARIAL, REAL_TEXT, TEXT, algorithm_panels
from isoloss.panels import Axis
from isoloss.results.verdict import above, below

TASK_C = "accuracy_c"
COLUMNS_2 = (
    Axis(TASK_C, "accuracy on task C", f"{TASK_C}_error"),
    Axis("trace", "trace of the Hessian (Fisher form)", "trace_error"),
)


CLAIMS_2 = (
    Claim(
        name="adversary-sharper",
        sentence="At the same loss the adversarially trained model is at a sharper minimum than AdamW's.",
        paper="19.34 against 8.01, 1.27 doublings (Table 2)",
        measure="mean over seeds of log2(adversarial trace / AdamW's) at the pair's common loss",
        unit="doublings",
        claimed=above(0.0),
        statistic=mean_at_same_loss(ADVERSARIAL, ADAMW, "trace", doublings),
    ),
    Claim(
        name="adversary-worse-on-c",
        sentence="At the same loss the adversarially trained model does worse than AdamW's on task C.",
        paper="50.2 against 55.7 % (Table 2)",
        measure="mean over seeds of accuracy at the pair's common loss, adversarial minus AdamW",
        unit="percentage points",
        claimed=below(0.0),
        statistic=mean_at_same_loss(ADVERSARIAL, ADAMW, TASK_C, percentage_points),
    ),
)


def table_2(scale: Scale) -> Experiment:
    """The table's rows on the grammar, from the runs of Table 1."""
    scale = scale.with_seeds(scale.compared.own_seeds)
    task = scale.grammar.tasks[2]
    measured = (scale.sizes.loss(), scale.sizes.trace(), scale.sizes.probe_of(task, TASK_C))
    adversary = ((ADVERSARIAL, scale.compared.adversary),)
    return Experiment(
        name="table-2",
        gallery=3,
        title="Does the algorithm of pre-training decide flatness at the same loss?",
        question=Question.ALGORITHM,
        text=(*TEXT, f"{REAL_TEXT} Its task is RTE."),
        runs=adamw_runs(scale, measured) + rule_runs(scale, adversary, measured),
        claims=CLAIMS_2,
        panels=lambda table: algorithm_panels(table, COLUMNS_2),
        paper_numbers=(
            ("AdamW", "loss 3.204; C 55.7 ± 0.6 %, trace 8.01 ± 0.73"),
            ("adversarial", "loss 3.206; C 50.2 ± 1.0 %, trace 19.34 ± 0.92"),
        ),
    )


EXPERIMENT = Design(
    table_2,
    registered="443864760435bf2251e1dfb5e00d411cf83d1d99",
    earlier_seeds={
        "laptop": ((111, 112, 113, 114, 115),),
        "night": (
            tuple(range(201, 211)),
            tuple(range(241, 251)),
        ),
    },
    of_the_paper=True,
)
