"""Would other seeds have given the same verdicts? The main command's claims, judged on sets of seeds."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim, Question, judge
from isoloss.experiments.design import Design
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_result import judged_runs
from isoloss.experiments.scale import Scale, scale_named
from isoloss.experiments.shared.claims import (
    FIGURE_1,
    FIGURE_1_WITH_FEW_SEEDS,
    OF_A_SEEDS_SIZES,
    WITH_MORE_SEEDS,
)
from isoloss.experiments.shared.language_runs import UNJUDGED, rounds_at, seeds_at
from isoloss.experiments.statistics.seed_bootstrap import once_per_frames
from isoloss.experiments.suite.figure_1 import SEEDS, figure_1
from isoloss.panels import Axis, Panel, Table
from isoloss.results.verdict import Verdict

SEEDS_A_SET = len(SEEDS["laptop"])
ORDERS = 10
"""Of the seeds, each of which is cut into disjoint sets: ten times five of thirty seeds."""
STANDS = 0.95
"""The share of sets with one verdict from which on a claim's is said to stand."""


def same_verdict(scale: Scale) -> Experiment:
    """Figure 1 as at laptop scale, with the seeds of a night."""
    settings = scale if scale.name == UNJUDGED else scale_named("laptop").with_seeds(scale.seeds)
    return Experiment(
        name="same-verdict",
        title="Would other seeds give the same verdicts?",
        question=Question.FLATNESS,
        text=(
            f"At laptop scale the claims of Figure 1 are judged on {SEEDS_A_SET} seeds. Here the same runs "
            "are made with more seeds, which are split into disjoint sets of that size, and the claims are "
            "judged on each set: a verdict that changes with the seeds says little. “Inconclusive” is a "
            "verdict too.",
            "Those claims of Figure 1 that so few seeds cannot decide are judged here, on all seeds.",
        ),
        runs=figure_1(settings).runs,
        claims=tuple(
            claim for claim in FIGURE_1 if claim.name in WITH_MORE_SEEDS and claim.name != OF_A_SEEDS_SIZES
        ),
        panels=ON_SETS.panels,
    )


def sets_of_seeds(seeds: Sequence[int], size: int, orders: int = ORDERS) -> tuple[frozenset[int], ...]:
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


@dataclass(frozen=True)
class OnSetsOfSeeds:
    """The premises and effects of an experiment, judged on disjoint sets of `size` seeds of its runs.

    The seeds are cut into such sets in each of `orders` random orders.
    """

    claims: Sequence[Claim]
    size: int
    orders: int = ORDERS

    @once_per_frames
    def verdicts(self, table: pl.DataFrame) -> pl.DataFrame:
        """A row a claim: how often it got which verdict."""
        frames = judged_runs(table)
        seeds = sorted({frame["seed"][0] for frame in frames})
        counts = verdicts_on_sets(self.claims, frames, sets_of_seeds(seeds, self.size, self.orders))
        return pl.DataFrame(
            [_row(claim, counts[claim.name]) for claim in self.claims if claim.name in counts]
        )

    def findings(self, table: pl.DataFrame) -> tuple[str, ...]:
        """How many claims have one verdict whatever the seeds, and which do not."""
        judged = self.verdicts(table)
        return (standing(judged), *turning(judged))

    def panels(self, table: pl.DataFrame) -> tuple[Panel, ...]:
        """The verdicts as a table; none before there are runs."""
        if not judged_runs(table):
            return ()
        judged = self.verdicts(table)
        columns = tuple(Axis(name, title) for name, title in _TITLES.items())
        return (Panel("sets", "Verdicts on sets of seeds", standing(judged), (Table(columns),), judged),)


def standing(judged: pl.DataFrame) -> str:
    """How many rows of `verdicts` have one verdict on nearly all sets of seeds, and which.

    >>> row = {"role": "effect", "share": 1.0, "sets": 4, "supported": 4, "not supported": 0}
    >>> standing(pl.DataFrame([row | {"inconclusive": 0}]))
    'On at least 95 % of the sets of seeds, 1 of 1 effects get one and the same verdict: 1 supported.'
    """
    share = {str(verdict): pl.col(str(verdict)) / pl.col("sets") for verdict in Verdict}
    numbers = {verdict: judged.filter(each >= STANDS).height for verdict, each in share.items()}
    by_verdict = ", ".join(f"{number} {verdict}" for verdict, number in numbers.items() if number) or "none"
    by_role = " and ".join(
        f"{asked.filter(pl.col('share') >= STANDS).height} of {asked.height} {role}s"
        for (role,), asked in judged.group_by("role", maintain_order=True)
    )
    return (
        f"On at least {100 * STANDS:.0f} % of the sets of seeds, {by_role} get one and the same verdict: "
        f"{by_verdict}."
    )


def turning(judged: pl.DataFrame) -> tuple[str, ...]:
    """Whether any claim is supported on one set and not on another, and the verdicts of each that turns.

    >>> row = {"claim": "later-is-better", "sets": 4, "share": 0.75}
    >>> turning(pl.DataFrame([row | {"supported": 3, "not supported": 0, "inconclusive": 1}]))
    ('No claim is supported on one set and not supported on another.',
     'Of the 4 sets, later-is-better is supported on 3, inconclusive on 1.')
    """
    opposite = judged.filter((pl.col(Verdict.SUPPORTED) > 0) & (pl.col(Verdict.NOT_SUPPORTED) > 0)).height
    rows = judged.filter(pl.col("share") < STANDS).sort("share").to_dicts()
    return (
        f"{_claims_are(opposite)} supported on one set and not supported on another.",
        *(f"Of the {row['sets']} sets, {row['claim']} is {_counts(row)}." for row in rows),
    )


def _claims_are(number: int) -> str:
    return {0: "No claim is", 1: "One claim is"}.get(number, f"{number} claims are")


def _counts(row: dict[str, str | int | float]) -> str:
    found = sorted(((row[str(verdict)], str(verdict)) for verdict in Verdict), reverse=True)
    return ", ".join(f"{verdict} on {count}" for count, verdict in found if count)


_TITLES = {
    "claim": "claim",
    "role": "role",
    **{str(verdict): str(verdict) for verdict in Verdict},
    "sets": "sets",
    "share": "share of the commonest",
}


def _row(claim: Claim, counts: Counter[Verdict]) -> dict[str, str | int | float]:
    total = counts.total()
    return {
        "claim": claim.name,
        "role": claim.role,
        **{str(verdict): counts[verdict] for verdict in Verdict},
        "sets": total,
        "share": max(counts.values()) / total if total else 0.0,
    }


ON_SETS = OnSetsOfSeeds(FIGURE_1_WITH_FEW_SEEDS, SEEDS_A_SET)

EXPERIMENT = Design(
    same_verdict,
    registered="71810e2e1bbac242247d1b0aad4c9352c9d3ddfa",
    seeds=SEEDS | seeds_at(night="347-350, 477-480, 556-560, 636-640, 657-660, 696-700, 717-719"),
    earlier_seeds=rounds_at(night="761-780; 441-460; 531-550; 601-620, 666-680; 391-400, 461-470"),
    findings=ON_SETS.findings,
)
