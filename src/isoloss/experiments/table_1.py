"""Table 1: loss and accuracy of pre-training algorithms at one loss, and of the lookup table."""

from isoloss.experiments.algorithm_table import (
    ADVERSARIAL,
    CLAIMS,
    LOOKUP_TABLE,
    REAL_TEXT,
    TASK_A,
    TASK_B,
    TEXT,
    adversary_in_words,
    algorithm_panels,
)
from isoloss.experiments.experiment import Experiment, Question
from isoloss.experiments.grammar_runs import adamw_runs, rule_runs
from isoloss.experiments.quantities.lookup_table import LookupTableReference
from isoloss.experiments.reference import PlannedReference
from isoloss.experiments.scales.scale import Scale
from isoloss.panels import Axis

COLUMNS = (
    Axis(TASK_A, "accuracy on task A", f"{TASK_A}_error"),
    Axis(TASK_B, "accuracy on task B", f"{TASK_B}_error"),
)


def table_1(scale: Scale) -> Experiment:
    """The table's rows on the grammar: AdamW, the adversarial algorithm, the lookup table."""
    task_a, task_b, _ = scale.grammar.tasks
    loss = scale.sizes.loss()
    probes = (scale.sizes.probe_of(task_a, TASK_A), scale.sizes.probe_of(task_b, TASK_B))
    adversary = ((ADVERSARIAL, scale.compared.adversary),)
    lookup = PlannedReference(
        LOOKUP_TABLE,
        scale.grammar.language,
        LookupTableReference(loss, probes),
        labels=(("rule", LOOKUP_TABLE),),
        judged=True,
    )
    return Experiment(
        name="table-1",
        title="Does the algorithm of pre-training decide accuracy at the same loss?",
        question=Question.ALGORITHM,
        text=(
            *TEXT,
            "The lookup table answers with the law itself: no loss is lower than its, the law's entropy. Its "
            "vector of a word is the law of that word, for the same linear probe.",
            f"{REAL_TEXT} There QNLI and SST-2 are the tasks.",
        ),
        runs=adamw_runs(scale, (loss, *probes)) + rule_runs(scale, adversary, (loss, *probes)),
        references=(lookup,),
        claims=CLAIMS,
        panels=lambda table: algorithm_panels(table, COLUMNS),
        pilot_seeds=scale.pilot_seeds,
        settings=(("tasks A and B", f"{task_a} and {task_b}"), ("adversary", adversary_in_words(scale))),
        paper_numbers=(
            ("AdamW", "loss 3.204; A 89.9 ± 0.3 %, B 49.2 ± 0.8 %"),
            ("adversarial", "loss 3.206; A 83.1 ± 0.6 %, B 42.3 ± 1.5 %"),
            ("lookup table", "loss 3.196; A 71.2 %, B 39.7 %"),
        ),
    )
