"""Table 2: flatness and accuracy by algorithm, at the loss that the adversary and AdamW share."""

from dataclasses import replace

from isoloss.experiments.claims import Question
from isoloss.experiments.compared_algorithms import (
    ADAMW,
    ADVERSARIAL,
    REAL_TEXT,
    TEXT,
    adamw_runs,
    adversary_is_worse,
    algorithm_panels,
    at_one_step_and_one_kl,
    rule_runs,
)
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.claims import flatter_is_better_at_one_kl
from isoloss.experiments.statistics.rank_correlation import PartialSlope
from isoloss.experiments.statistics.same_loss import LOSS_WINDOW, doublings
from isoloss.experiments.suite.table_1 import EXPERIMENT as TABLE_1
from isoloss.panels import Axis
from isoloss.results.verdict import above

TASK_C = "accuracy_c"
COLUMNS_2 = (
    Axis(TASK_C, "accuracy on task C", f"{TASK_C}_error"),
    Axis("trace", "trace of the Hessian (Fisher form)", "trace_error"),
)


CLAIMS_2 = (
    *at_one_step_and_one_kl(
        "adversary-sharper",
        (
            "At the same step and loss the adversarially trained model is at a sharper minimum than AdamW's.",
            "At the same KL the adversarially trained model is at a sharper minimum than AdamW's.",
        ),
        "19.34 against 8.01, 1.27 doublings (Table 2)",
        "log2(adversarial trace / AdamW's)",
        "doublings of the trace",
        above(0.0),
        (ADVERSARIAL, ADAMW, "trace", doublings),
    ),
    flatter_is_better_at_one_kl(
        "flatter-is-better-at-one-kl",
        "Among the adversary's and AdamW's models at equal KL, flatter ones do better on task C.",
        "all checkpoints within 0.5 % of the seed's lowest loss, with an intercept for each seed",
        PartialSlope("seed", outcome=TASK_C, window=LOSS_WINDOW),
    ),
)
"""All of them; where task C is another than A and B, that the adversary does worse on it too."""


def table_2(scale: Scale) -> Experiment:
    """The table's rows on the grammar, from the runs of Table 1."""
    *others, task = scale.grammar.tasks
    on_task_c = () if task in others else adversary_is_worse("C", TASK_C, "50.2 against 55.7 % (Table 2)")
    measured = (scale.sizes.loss(), scale.sizes.trace(), scale.sizes.probe_of(task, TASK_C))
    adversary = ((ADVERSARIAL, scale.compared.adversary),)
    return Experiment(
        name="table-2",
        gallery=3,
        title="Does the algorithm of pre-training decide flatness at the same loss?",
        question=Question.ALGORITHM,
        text=(
            *TEXT,
            "Where one task stands in for C and for another, whether the adversary does worse on it is "
            "judged with Table 1.",
            f"{REAL_TEXT} Its task is RTE.",
        ),
        runs=adamw_runs(scale, measured) + rule_runs(scale, adversary, measured),
        claims=(*CLAIMS_2, *on_task_c),
        panels=lambda table: algorithm_panels(table, COLUMNS_2, ("adversary-sharper-at-one-kl",)),
        paper_numbers=(
            ("AdamW", "loss 3.204; C 55.7 ± 0.6 %, trace 8.01 ± 0.73"),
            ("adversarial", "loss 3.206; C 50.2 ± 1.0 %, trace 19.34 ± 0.92"),
        ),
    )


EXPERIMENT = replace(TABLE_1, plan=table_2, caution="")
