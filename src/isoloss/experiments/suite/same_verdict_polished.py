"""Would other seeds have given the same verdicts on models of equal KL? Those claims, on sets of seeds."""

from isoloss.experiments.claims import Question
from isoloss.experiments.design import Design
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.scale import Scale, scale_named
from isoloss.experiments.shared.language_runs import UNJUDGED, rounds_at, seeds_at
from isoloss.experiments.suite.flatten_polish import ON_FEW_SEEDS, SEEDS, flatten_polish
from isoloss.experiments.suite.same_verdict import OnSetsOfSeeds

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
    # Ten disjoint sets. Before the last thirty seeds were run, sets of the others had been judged: six claims
    # had one verdict on at least 95 % of 50 sets.
    seeds=SEEDS | seeds_at(night="641-650, 689-690, 726-733, 801-810, 361-390"),
    earlier_seeds=rounds_at(
        night=(
            "176-200; 126-130, 136-140, 166-170, 436-440, 496-500; 56-80; 3-10, 251-272; "
            "81-90, 273-280, 351-360, 626-627"
        )
    ),
    findings=ON_SETS.findings,
)
