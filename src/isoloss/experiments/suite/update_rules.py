"""Beyond the paper: how flat and how good other update rules are at the loss that AdamW reaches too."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.compared_algorithms import (
    ADAMW,
    AT_ONE_STEP,
    EXACT_LOSS,
    adamw_runs,
    at_one_step_and_one_kl,
    pairs_panel,
    rule_runs,
)
from isoloss.experiments.design import Design
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import KL, TRACE, over_steps
from isoloss.experiments.scale import FRESH_SEEDS, Scale
from isoloss.experiments.shared.claims import ASSOCIATION, WHY_ASSOCIATION, flatter_is_better_at_one_kl
from isoloss.experiments.shared.language_runs import rounds_at
from isoloss.experiments.statistics.along_runs import MeanOverSeeds
from isoloss.experiments.statistics.rank_correlation import PartialSlope, rank_correlation
from isoloss.experiments.statistics.same_loss import (
    LOSS_WINDOW,
    at_same_steps,
    doublings,
    percentage_points,
    rows_at_same_loss,
)
from isoloss.panels import Axis, Categories, Colour, Dots, Panel
from isoloss.results.verdict import above, below

ACCURACY = "accuracy"
REGULARISED = "flatness-regularised"
PEERS = ("Muon", "Lion", "SOAP", "Sophia")
OURS = "beyond the paper"


def flatter_is_better(runs: Sequence[pl.DataFrame]) -> float:
    """Spearman's correlation of (decrease of the trace, gain of accuracy) against AdamW, for one seed.

    Only a seed's pairs are ranked together, since they share AdamW's run. nan for too few to be ranked.
    """
    by_rule = {run["rule"][0]: run for run in runs}
    reference = by_rule.pop(ADAMW, None)
    found = [] if reference is None else [_against(run, reference) for run in by_rule.values()]
    pairs = [pair for pair in found if pair is not None]
    return rank_correlation(-np.array([trace for trace, _ in pairs]), np.array([gain for _, gain in pairs]))


def _against(run: pl.DataFrame, reference: pl.DataFrame) -> tuple[float, float] | None:
    """Doublings of the trace and gain of accuracy, means over the pair's steps; None without one."""
    rows = at_same_steps(run, reference, ("trace", ACCURACY, "loss"))
    if not rows:
        return None
    apart = [doublings(row["trace"], row["trace_reference"]) for row in rows]
    gained = [percentage_points(row[ACCURACY], row[f"{ACCURACY}_reference"]) for row in rows]
    return float(np.mean(apart)), float(np.mean(gained))


def _is_flatter(rule: str, why: str, called: str) -> tuple[Claim, Claim]:
    return at_one_step_and_one_kl(
        f"{rule.lower()}-flatter",
        (
            f"At the same step and loss {called} is at a flatter minimum than AdamW.",
            f"At the same KL {called} is at a flatter minimum than AdamW.",
        ),
        why,
        "log2(trace / AdamW's trace)",
        "doublings of the trace",
        below(0.0),
        (rule, ADAMW, "trace", doublings),
    )


FOR_THE_REGULARISER = f"{OURS}: Section D asks for an explicit regulariser"
CLAIMS = (
    *_is_flatter(REGULARISED, FOR_THE_REGULARISER, f"{REGULARISED} training"),
    *at_one_step_and_one_kl(
        "flatness-regularised-better",
        (
            "At the same step and loss flatness-regularised training does better downstream than AdamW.",
            "At the same KL flatness-regularised training does better downstream than AdamW.",
        ),
        FOR_THE_REGULARISER,
        "accuracy minus AdamW's",
        "percentage points",
        above(0.0),
        (REGULARISED, ADAMW, ACCURACY, percentage_points),
    ),
    *(claim for rule in PEERS for claim in _is_flatter(rule, OURS, rule)),
    flatter_is_better_at_one_kl(
        "flatter-is-better-at-one-kl",
        "Among models of all rules at equal KL, flatter ones have higher accuracy.",
        "all rules' and AdamW's checkpoints within 0.5 % of the seed's lowest loss, with an intercept for "
        "each seed",
        PartialSlope("seed", window=LOSS_WINDOW),
    ),
    Claim(
        name="flatter-rules-do-better",
        sentence="Among update rules at AdamW's step and loss, the flatter minimum does better downstream.",
        paper=f"{OURS}: the paper's main claim (Section 4), across rules",
        measure=(
            "mean over seeds of Spearman's correlation over rules, at least two of a seed, of −log2(trace / "
            f"AdamW's) with accuracy minus AdamW's, {AT_ONE_STEP}"
        ),
        unit="in rank correlation",
        claimed=above(ASSOCIATION),
        statistic=MeanOverSeeds(flatter_is_better),
        reason=WHY_ASSOCIATION,
        limit=1.0,
    ),
)


PROBE = Axis(ACCURACY, "linear probe accuracy", f"{ACCURACY}_error")
RULE = Colour("rule", "update rule")
SEED = Colour("seed", "seed")
PAIR = (Axis("against", "pair"), Axis("rule", "rule"))


def update_rules(scale: Scale) -> Experiment:
    """Muon, Lion, SOAP, Sophia and the flatness regulariser against AdamW, each at the pair's common loss."""
    task = scale.grammar.tasks[1]
    measured = (scale.sizes.loss(), scale.sizes.trace(), scale.sizes.probe_of(task))
    rules = scale.compared.peers
    return Experiment(
        name="update-rules",
        title="Do other update rules find flatter minima at AdamW's loss?",
        question=Question.ALGORITHM,
        text=(
            "The paper compares sizes, steps and the adversary, and always pre-trains with AdamW. Other "
            "update rules lead to other minima. Here each rule trains the same architecture on the same "
            "sentences.",
            "A rule's run and AdamW's run with the same seed are compared twice: at the same step, over the "
            "last doubling of steps and where their losses lie within 0.5 % of each other, within which a "
            "faster rule knows more of the distribution; and where each first falls to the lowest KL that "
            "both reach, interpolated between checkpoints, at an earlier step of the faster. The tables and "
            "dots show the second comparison, and the tables list its steps.",
        ),
        runs=adamw_runs(scale, measured) + rule_runs(scale, rules, measured),
        claims=CLAIMS,
        panels=lambda table: _panels(table, [name for name, _ in rules]),
        paper_numbers=(("all rules", f"none: {OURS}"),),
    )


def _panels(table: pl.DataFrame, rules: list[str]) -> tuple[Panel, ...]:
    pairs = rows_at_same_loss(table, rules, ADAMW, ["trace", ACCURACY])
    against = against_reference(pairs)
    return (
        Panel(
            "same-loss",
            "Flatter and better than AdamW, at the same loss",
            "One row per rule and seed. Bars are one standard error over sentences, with the two errors "
            "taken as independent, including that of the interpolation between checkpoints. Below 0 "
            "doublings: flatter than AdamW.",
            (
                Categories("rule", Axis("doublings", "log2(trace / AdamW's)", "doublings_error"), SEED),
                Categories(
                    "rule", Axis("gain", "accuracy minus AdamW's (percentage points)", "gain_error"), SEED
                ),
            ),
            against,
        ),
        pairs_panel(pairs, PAIR, EXACT_LOSS, (TRACE, PROBE), Dots(TRACE, PROBE, RULE)),
        *over_steps(KL, PROBE, TRACE, by=RULE, caption="Bars are one standard error over sentences.")(table),
    )


def against_reference(pairs: pl.DataFrame) -> pl.DataFrame:
    """A row per pair of `rows_at_same_loss`: `doublings` of the trace and `gain` in accuracy, with errors."""
    others, reference = (pairs.filter(side) for side in (pl.col("rule") != ADAMW, pl.col("rule") == ADAMW))
    both = others.join(reference, left_on=["rule", "seed"], right_on=["against", "seed"], suffix="_reference")
    relative = [pl.col(f"trace_error{side}") / pl.col(f"trace{side}") for side in ("", "_reference")]
    gained = [pl.col(f"{ACCURACY}_error{side}") for side in ("", "_reference")]
    return both.select(
        "rule",
        "seed",
        (pl.col("trace") / pl.col("trace_reference")).log(2).alias("doublings"),
        ((relative[0] ** 2 + relative[1] ** 2).sqrt() / pl.lit(2.0).log()).alias("doublings_error"),
        (100 * (pl.col(ACCURACY) - pl.col(f"{ACCURACY}_reference"))).alias("gain"),
        (100 * (gained[0] ** 2 + gained[1] ** 2).sqrt()).alias("gain_error"),
    )


EXPERIMENT = Design(
    update_rules,
    registered="b860d6db0c56933dcc4595d62ae8cdc24ab2fe30",
    seeds=FRESH_SEEDS,
    earlier_seeds=rounds_at(laptop="111-115; 171-175", night="241-250; 351-376"),
)
