"""Would other seeds have given the same verdicts? The main command's experiments, judged on sets of seeds."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim, Question, judge
from isoloss.experiments.design import Design
from isoloss.experiments.equal_knowledge import STAGE
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_result import judged_runs
from isoloss.experiments.scale import FRESH_SEEDS, Scale, scale_named
from isoloss.experiments.shared.language_runs import UNJUDGED
from isoloss.experiments.suite.figure_1 import figure_1
from isoloss.experiments.suite.flatten_polish import flatten_polish
from isoloss.panels import Axis, Panel, Table
from isoloss.results.verdict import Verdict

SEEDS_A_SET = 5
"""As many as the main command has."""
ORDERS = 4
"""Of the seeds, each of which is cut into disjoint sets."""
STANDS = 0.95
"""The share of sets with one verdict from which on a claim's is said to stand."""

NIGHT_SEEDS = tuple(range(761, 781))
"""Of those of the polished models, whose runs are the same."""


def same_verdict(scale: Scale) -> Experiment:
    """Figure 1 and the polished models as at laptop scale, with the seeds of a night."""
    settings = scale if scale.name == UNJUDGED else scale_named("laptop").with_seeds(scale.seeds)
    figure, polished = figure_1(settings), flatten_polish(settings, settings.seeds)
    return Experiment(
        name="same-verdict",
        title="Would other seeds give the same verdicts?",
        question=Question.MATERIAL,
        text=(
            f"At laptop scale each claim is judged on {SEEDS_A_SET} seeds. Here the same runs are made with "
            f"more, cut into disjoint sets of {SEEDS_A_SET}, and the claims are judged on each set as there: "
            "a verdict that changes with the seeds says little. “Inconclusive” is a verdict too: some "
            "claims need a night's seeds.",
        ),
        runs=(*figure.runs, *polished.runs),
        claims=(),
        panels=lambda table: _panels(table, figure.claims, polished.claims),
    )


def sets_of_seeds(
    seeds: Sequence[int], size: int = SEEDS_A_SET, orders: int = ORDERS
) -> tuple[frozenset[int], ...]:
    """Disjoint sets of `size` seeds from each of several random orders of them; the rest of an order is left.

    >>> [sorted(each) for each in sets_of_seeds((1, 2, 3, 4, 5), size=2, orders=1)]
    [[3, 5], [1, 4]]
    """
    generator = np.random.default_rng(0)
    found = []
    for _ in range(orders):
        order = generator.permutation(np.array(seeds)).tolist()
        found += [frozenset(order[start : start + size]) for start in range(0, len(order) - size + 1, size)]
    return tuple(found)


def verdicts_on_sets(
    claims: Sequence[Claim], frames: Sequence[pl.DataFrame], sets: Sequence[frozenset[int]]
) -> dict[str, Counter[Verdict]]:
    """How often each premise and effect gets each verdict, judged on the runs of each set of seeds."""
    asked = [claim for claim in claims if claim.role != "withdrawn"]
    counts: dict[str, Counter[Verdict]] = {claim.name: Counter() for claim in asked}
    for seeds in sets:
        for judgement in judge(asked, [frame for frame in frames if frame["seed"][0] in seeds]):
            counts[judgement.claim.name][judgement.verdict] += 1
    return counts


def verdicts(
    table: pl.DataFrame, figure: Sequence[Claim], polished: Sequence[Claim], size: int = SEEDS_A_SET
) -> pl.DataFrame:
    """A row a premise or effect: how often it got which verdict on sets of seeds, the commonest's share."""
    frames = judged_runs(table)
    is_polished = [STAGE in frame.columns and frame[STAGE][0] is not None for frame in frames]
    rows = []
    for name, claims, own in (("figure-1", figure, False), ("flatten-polish", polished, True)):
        of_these = [frame for frame, polish in zip(frames, is_polished, strict=True) if polish is own]
        seeds = sorted({frame["seed"][0] for frame in of_these})
        counts = verdicts_on_sets(claims, of_these, sets_of_seeds(seeds, size))
        rows += [_row(name, claim, counts[claim.name]) for claim in claims if claim.name in counts]
    return pl.DataFrame(rows)


def findings(table: pl.DataFrame) -> tuple[str, ...]:
    """How many claims of both experiments have one verdict whatever the seeds, and which do not."""
    settings = scale_named("laptop")
    claims = figure_1(settings).claims, flatten_polish(settings).claims
    judged, on_more = (verdicts(table, *claims, size) for size in (SEEDS_A_SET, 2 * SEEDS_A_SET))
    return (standing(judged, SEEDS_A_SET), standing(on_more, 2 * SEEDS_A_SET), *turning(judged))


def standing(judged: pl.DataFrame, size: int) -> str:
    """How many rows of `verdicts` have one verdict on nearly all sets of `size` seeds, and which.

    >>> row = {"sets": 4, "share": 1.0, "supported": 4, "not supported": 0, "inconclusive": 0}
    >>> standing(pl.DataFrame([row]), 5)
    '1 of 1 premises and effects have one verdict on at least 95 % of 4 sets of 5 seeds: 1 supported.'
    """
    share = {str(verdict): pl.col(str(verdict)) / pl.col("sets") for verdict in Verdict}
    numbers = {verdict: judged.filter(each >= STANDS).height for verdict, each in share.items()}
    by_verdict = ", ".join(f"{number} {verdict}" for verdict, number in numbers.items() if number) or "none"
    return (
        f"{sum(numbers.values())} of {judged.height} premises and effects have one verdict on at least "
        f"{100 * STANDS:.0f} % of {max(judged['sets'].to_list())} sets of {size} seeds: {by_verdict}."
    )


def turning(judged: pl.DataFrame) -> tuple[str, ...]:
    """Whether any claim is supported on one set and not on another, and the verdicts of each that turns.

    >>> row = {"experiment": "figure-1", "claim": "later-is-better", "sets": 4, "share": 0.75}
    >>> turning(pl.DataFrame([row | {"supported": 3, "not supported": 0, "inconclusive": 1}]))
    ('0 are supported on one set and not supported on another.',
     'later-is-better (figure-1): supported on 3, inconclusive on 1.')
    """
    opposite = judged.filter((pl.col(Verdict.SUPPORTED) > 0) & (pl.col(Verdict.NOT_SUPPORTED) > 0)).height
    rows = judged.filter(pl.col("share") < STANDS).sort("share").to_dicts()
    return (
        f"{opposite} are supported on one set and not supported on another.",
        *(f"{row['claim']} ({row['experiment']}): {_counts(row)}." for row in rows),
    )


def _counts(row: dict[str, str | int | float]) -> str:
    found = sorted(((row[str(verdict)], str(verdict)) for verdict in Verdict), reverse=True)
    return ", ".join(f"{verdict} on {count}" for count, verdict in found if count)


def _panels(table: pl.DataFrame, figure: Sequence[Claim], polished: Sequence[Claim]) -> tuple[Panel, ...]:
    if not judged_runs(table):
        return ()
    judged = verdicts(table, figure, polished)
    columns = tuple(Axis(name, title) for name, title in _TITLES.items())
    return (
        Panel("sets", "Verdicts on sets of seeds", standing(judged, SEEDS_A_SET), (Table(columns),), judged),
    )


_TITLES = {
    "experiment": "experiment",
    "claim": "claim",
    "role": "role",
    **{str(verdict): str(verdict) for verdict in Verdict},
    "sets": "sets",
    "share": "share of the commonest",
}


def _row(experiment: str, claim: Claim, counts: Counter[Verdict]) -> dict[str, str | int | float]:
    total = counts.total()
    return {
        "experiment": experiment,
        "claim": claim.name,
        "role": claim.role,
        **{str(verdict): counts[verdict] for verdict in Verdict},
        "sets": total,
        "share": max(counts.values()) / total if total else 0.0,
    }


EXPERIMENT = Design(
    same_verdict, seeds={"laptop": FRESH_SEEDS["laptop"], "night": NIGHT_SEEDS}, findings=findings
)
