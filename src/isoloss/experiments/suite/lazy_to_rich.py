"""A question that the paper leaves open: from lazy to rich training, another way to the same loss."""

from dataclasses import replace

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.compared_algorithms import compared_model, varied_runs
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import ACCURACY, KL, TRACE, loss_bars, over_steps, probe_bars, trace_bars
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.claims import final_kl_is_small, final_losses_are_equal
from isoloss.experiments.shared.language_runs import rounds_at, seeds_at
from isoloss.experiments.statistics.same_loss import MeanAtSameLoss, doublings, percentage_points
from isoloss.models.transformers import BERTS_DEVIATION
from isoloss.panels import Colour
from isoloss.results.verdict import above, below

DEVIATIONS = (BERTS_DEVIATION, 0.1, 0.2)
OPEN = "none: Section 5 constructs, and does not train, solutions of equal loss that differ in their features"


def rule_of(deviation: float) -> str:
    """The name of a run, after the standard deviation of its initial weights."""
    return f"deviation {deviation:g}"


RICH = rule_of(DEVIATIONS[0])


def _against_rich(deviation: float) -> tuple[Claim, Claim]:
    rule, key, times = rule_of(deviation), f"{deviation:g}", deviation / DEVIATIONS[0]
    return (
        Claim(
            name=f"larger-start-is-flatter-{key}",
            sentence=f"Weights that start {times:g} times as large end at a flatter minimum.",
            paper=OPEN,
            measure=f"mean over seeds of log2(trace / that of {RICH}) at the pair's common loss",
            unit="doublings of the trace",
            claimed=below(-0.25),
            statistic=MeanAtSameLoss(rule, RICH, "trace", doublings),
            reason="a sixth of the trace, which is several times its error",
        ),
        Claim(
            name=f"larger-start-is-better-{key}",
            sentence=f"Weights that start {times:g} times as large make a better model downstream.",
            paper=OPEN,
            measure=f"mean over seeds of accuracy minus that of {RICH}, at the pair's common loss",
            unit="percentage points",
            claimed=above(1.0),
            statistic=MeanAtSameLoss(rule, RICH, "accuracy", percentage_points),
            reason="half of the paper's smallest gain with size",
        ),
    )


CLAIMS = (
    final_losses_are_equal("deviations-have-one-loss", "models from all initial deviations"),
    final_kl_is_small("deviations-near-the-law"),
    *_against_rich(DEVIATIONS[1]),
    *_against_rich(DEVIATIONS[2]),
)
"""Fixed on pilot runs, half as long; docs/pilots.md has what they gave."""


def lazy_to_rich(scale: Scale) -> Experiment:
    """The compared size from three initial standard deviations, with seeds of its own."""
    model = compared_model(scale)
    bars = f"{loss_bars(scale.sizes)}{trace_bars(scale.sizes)}{probe_bars(scale.sizes)}"
    return Experiment(
        name="lazy-to-rich",
        title="Does it matter how large the weights start?",
        question=Question.FLATNESS,
        text=(
            "The larger the initial weights of a network, the less they need to move to fit the data, and "
            "the less its features adapt to the task (lazy training, Chizat et al. 2019; kernel and rich "
            "regimes, Woodworth et al. 2020). This is a way to reach one pre-training loss at different "
            "minima that the paper does not consider: it compares sizes, steps and an adversary. Here models "
            "of one size are initialised with standard deviations of "
            f"{', '.join(f'{each:g}' for each in DEVIATIONS)}, all else as in Figure 1, and the two runs of "
            "a pair are compared where each falls to the lowest loss that both reach.",
            "The question is whether the flatness of a minimum and the quality of its features go together "
            "when the minima differ only in where training began.",
        ),
        runs=varied_runs(
            scale,
            {
                rule_of(deviation): {"architecture": replace(model, initial_deviation=deviation)}
                for deviation in DEVIATIONS
            },
            scale.followed,
        ),
        claims=CLAIMS,
        panels=over_steps(
            *(KL, TRACE, ACCURACY),
            by=Colour("rule", "initial deviation"),
            caption=bars,
            shows=tuple(claim.name for claim in CLAIMS if "flatter" in claim.name),
        ),
        paper_numbers=(("lazy and rich training", "none"),),
    )


EXPERIMENT = Design(
    lazy_to_rich,
    registered="72089dd49eef8592396e8c4b754ac0977fa6e341",
    # New ones at both scales; docs/pilots.md has why.
    seeds=seeds_at(laptop="131-135", night="331-346"),
    earlier_seeds=rounds_at(night="221-230"),
    takes_a_language=True,
    picture=Picture(
        "steps", "Divergence, trace and accuracy over steps, from weights that start small and large"
    ),
)
