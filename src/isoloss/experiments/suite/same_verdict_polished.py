"""Would other seeds have given the same verdicts on models of equal KL? Those claims, on sets of seeds."""

from isoloss.experiments.claims import Question
from isoloss.experiments.design import Design
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.scale import Scale, scale_named
from isoloss.experiments.shared.language_runs import UNJUDGED
from isoloss.experiments.suite.flatten_polish import ON_FEW_SEEDS, SEEDS, flatten_polish
from isoloss.experiments.suite.same_verdict import OnSetsOfSeeds

FIRST_HALF = (*range(641, 651), 689, 690, *range(726, 734), *range(801, 811))
NIGHT_SEEDS = (*FIRST_HALF, *range(361, 391))
"""Ten disjoint sets. Before the second half was run, those of the first had been judged: six claims had one
verdict on at least 95 % of 50 sets."""
ON_SETS = OnSetsOfSeeds(ON_FEW_SEEDS, len(SEEDS["laptop"]), orders=5)


def same_verdict_polished(scale: Scale) -> Experiment:
    """Flatten and polish as at laptop scale, with the seeds of a night."""
    settings = scale if scale.name == UNJUDGED else scale_named("laptop").with_seeds(scale.seeds)
    return Experiment(
        name="same-verdict-polished",
        title="Would other seeds give the same verdicts on models of equal KL?",
        question=Question.FLATNESS,
        text=(
            f"At laptop scale the claims of flatten-polish are judged on {ON_SETS.size} seeds. Here the same "
            "runs are made with more seeds, which are split into disjoint sets of that size, and the claims "
            "are judged on each set.",
        ),
        runs=flatten_polish(settings).runs,
        panels=ON_SETS.panels,
    )


EXPERIMENT = Design(
    same_verdict_polished,
    seeds={"laptop": SEEDS["laptop"], "night": NIGHT_SEEDS},
    earlier_seeds={
        "night": (
            tuple(range(176, 201)),
            (*range(126, 131), *range(136, 141), *range(166, 171), *range(436, 441), *range(496, 501)),
            tuple(range(56, 81)),
            (*range(3, 11), *range(251, 273)),
            (*range(81, 91), *range(273, 281), *range(351, 361), 626, 627),
        )
    },
    findings=ON_SETS.findings,
)
