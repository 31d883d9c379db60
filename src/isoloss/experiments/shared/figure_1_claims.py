"""The claims of Figure 1, which other experiments judge too, and which of them few seeds decide."""

from dataclasses import replace

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.shared.claims import (
    ASSOCIATION,
    LOSSES_IN_PAPER,
    UNDECIDABLE,
    WHY_ASSOCIATION,
    final_kl_is_small,
    flatter_is_better_at_one_kl,
    kl_is_constant_within_runs,
    later_is_better,
    later_is_flatter,
    premise_of_loss,
    sizes_end_at_equal_kl,
)
from isoloss.experiments.statistics.across_models import (
    GapBetweenWidths,
    GapBetweenWidthsInDoublings,
    gap_between_typical_losses,
)
from isoloss.experiments.statistics.along_runs import (
    RANGE_OF_LOSS,
    GeometricMeanWithinRuns,
    MeanWithinRuns,
    RelativeRange,
)
from isoloss.experiments.statistics.rank_correlation import Advantage, PartialSlope, PooledInWindow, Ranking
from isoloss.experiments.statistics.same_loss import PAPER_WINDOW
from isoloss.results.verdict import above

OF_A_SEEDS_SIZES = "trace-ranks-better-in-the-window"
"""The claim that compares models of several sizes with one seed."""
HARDLY_DECIDABLE = (
    "hardly any measurement could support it: even if accuracy were exactly −log2 of the trace, it would be "
    "0.253 (figure-1) and 0.332 (figure-1-decided) on the traces and losses of the night's runs, and 0.22 "
    "and 0.19 with an error of a percentage point"
)
"""Of that claim. Before the runs it had been 0.6, on losses and traces that were made up."""
LATER_IS_BETTER = later_is_better(
    "later-is-better",
    "Within a run, late in training, later checkpoints do better downstream.",
    "accuracy rises along a run (Figure 2; no number given)",
    answers=Question.LATER,
)
FIGURE_1 = (
    premise_of_loss(
        "one-loss",
        sentence="Within a run, late in training, the pre-training loss no longer changes.",
        paper=LOSSES_IN_PAPER,
        measure="mean over runs of largest minus smallest exact loss of the run's dots, over their mean",
        statistic=RANGE_OF_LOSS,
    ),
    premise_of_loss(
        "typical-runs-have-one-loss",
        sentence="Within a typical run, late in training, the pre-training loss no longer changes.",
        paper=LOSSES_IN_PAPER,
        measure=(
            "geometric mean over runs of largest minus smallest exact loss of the run's dots, over their mean"
        ),
        statistic=GeometricMeanWithinRuns(RelativeRange("loss")),
    ),
    kl_is_constant_within_runs("one-kl", ""),
    premise_of_loss(
        "sizes-have-one-loss",
        sentence="At the end models of all sizes have the same pre-training loss.",
        paper=LOSSES_IN_PAPER,
        measure="largest minus smallest of the widths' mean losses at the last checkpoint, over their mean",
        statistic=GapBetweenWidths("loss"),
    ),
    premise_of_loss(
        "typical-sizes-have-one-loss",
        sentence="At the end typical models of all sizes have the same pre-training loss.",
        paper=LOSSES_IN_PAPER,
        measure=("largest minus smallest of the widths' geometric mean KL at the end, over the mean loss"),
        statistic=gap_between_typical_losses,
    ),
    sizes_end_at_equal_kl("sizes-have-one-kl", "", GapBetweenWidthsInDoublings("kl")),
    final_kl_is_small("near-the-law"),
    Claim(
        name="trace-ranks-better",
        sentence="The trace of the Hessian ranks downstream accuracy much better than the loss does.",
        paper="the trace “correlates much better” (Figure 1; no number given)",
        measure=(
            "mean over runs of Spearman(−trace, accuracy) minus Spearman(−loss, accuracy) over the run's dots"
        ),
        unit="in rank correlation",
        claimed=above(ASSOCIATION),
        statistic=MeanWithinRuns(Advantage(Ranking("trace"), Ranking("loss"))),
        withdrawn=(f"{UNDECIDABLE}: even if accuracy were exactly −log2 of the trace, it would be about 0.1"),
        reason=WHY_ASSOCIATION,
        limit=2.0,
    ),
    Claim(
        name=OF_A_SEEDS_SIZES,
        sentence=(
            "Among models whose losses lie within 0.12 % of each other, the trace of the Hessian ranks "
            "downstream accuracy much better than the loss does."
        ),
        paper="losses 3.204 to 3.208 nats; the trace “correlates much better” (Figure 1; no number given)",
        measure=(
            "mean over seeds of Spearman(−trace, accuracy) minus Spearman(−loss, accuracy), over the dots "
            "(at least four of a seed) of all sizes within 0.12 % of its lowest loss"
        ),
        unit="in rank correlation",
        claimed=above(ASSOCIATION),
        statistic=PooledInWindow(Advantage(Ranking("trace"), Ranking("loss")), PAPER_WINDOW),
        withdrawn=HARDLY_DECIDABLE,
        reason=WHY_ASSOCIATION,
        limit=2.0,
    ),
    flatter_is_better_at_one_kl(
        "flatter-is-better-at-one-kl",
        "Among checkpoints of a run at equal KL, flatter ones have higher accuracy.",
        "the dots, with an intercept for each run",
        PartialSlope("run"),
    ),
    later_is_flatter(
        "later-is-flatter",
        "Within a run, late in training, later checkpoints are flatter.",
        "the trace falls along a run (Figure 4; no number given)",
        answers=Question.LATER,
    ),
    LATER_IS_BETTER,
)
OF_TYPICAL_RUNS = ("typical-runs-have-one-loss", "typical-sizes-have-one-loss")
"""Premises on geometric means, which no single run that comes loose decides."""
OPEN_WITH_FEW_SEEDS = (
    "sizes-have-one-kl",
    "near-the-law",
    OF_A_SEEDS_SIZES,
    "flatter-is-better-at-one-kl",
)
"""Claims that even seven seeds leave open, or decide otherwise from set to set."""
WITH_MORE_SEEDS = ("one-loss", "sizes-have-one-loss", *OF_TYPICAL_RUNS, *OPEN_WITH_FEW_SEEDS)
"""Those that `same_verdict` judges for the laptop's Figure 1, but for that one: there a seed has one size."""
FIGURE_1_WITH_FEW_SEEDS = (
    *(each for each in FIGURE_1 if each.name not in WITH_MORE_SEEDS and each is not LATER_IS_BETTER),
    replace(
        LATER_IS_BETTER,
        withdrawn="seven seeds did not decide it, 27 of 50 sets supported it; the scale night judges it",
    ),
)
"""The claims of Figure 1 as a laptop's seeds judge them; docs/pilots.md has why."""
