"""Whether claims can decide anything, as is checked of an experiment before anything is run.

Experiments are made up in which the trace of the Hessian and KL(distribution || model) fall along each run
as they do in pre-training, and accuracy is exactly -log2 of the trace, exactly -log2 of KL, or independent
of both; or, of several languages, the first on some and the second on the others. A statistic that in the
mean over seeds never lies in the claimed region, whichever it is, or never outside, cannot decide between
them: the claim is undecidable by design.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from isoloss.errors import BadInput
from isoloss.experiments.claims import Claim
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.made_up_runs import ACCURACY, MadeUpRuns, World
from isoloss.results.verdict import Region

REPLICATES, ALIKE = 24, 4
"""How many experiments are made up, and of how many in a row labels add the same: errors average out."""
MOST_REPLICATES = 48
"""How many, at most, before a claim counts as undecidable."""


@dataclass(frozen=True)
class Range:
    """A claim's statistic in each world, a mean over experiments for each draw of what labels add.

    nan where it is undefined in all of a draw's. `of_one_level` says that the claim would hold, or fail, at
    another level of accuracy, or if more points were lost for each doubling.
    """

    claimed: Region
    values: dict[World, tuple[float, ...]]
    of_one_level: bool = False

    @property
    def compares(self) -> bool:
        """Whether it sets accuracy against something, unlike the gap of two probes: 0, and claimed to be.

        Where ranks along all runs are the same, what accuracy follows makes no difference, and it is 0 too.
        """
        first, *others = map(np.array, self.values.values())
        differs = any(not np.array_equal(first, other, equal_nan=True) for other in others)
        return differs or (not first.any() and not self.claimed.low < 0 < self.claimed.high)

    @property
    def unknown(self) -> bool:
        """Whether it is undefined in all draws, so that nothing can be said of it yet."""
        return not any(np.isfinite(found).any() for found in self.values.values())

    def mean(self, world: World) -> float:
        """The mean over the draws for which it is defined; nan if there is none."""
        known = self.known(world)
        return float(np.mean(known)) if known else math.nan

    def known(self, world: World) -> tuple[float, ...]:
        """The draws for which it is defined, ordered by value."""
        return tuple(sorted(filter(math.isfinite, self.values[world])))

    def share_claimed(self, world: World) -> float:
        """For how many of the draws for which it is defined it lies in the claimed region, as a share.

        nan if there is none: without a number a claim is neither supported nor not.
        """
        inside = [self.claimed.low < value < self.claimed.high for value in self.known(world)]
        return float(np.mean(inside)) if inside else math.nan

    @property
    def fault(self) -> str:
        """Why it decides nothing, as a sentence; empty if it can.

        >>> from isoloss.results.verdict import above
        >>> values = {World.FLATNESS: (0.1,), World.KNOWLEDGE: (-0.1,), World.NEITHER: (0.0,)}
        >>> Range(above(0.25), values).fault
        'whatever accuracy follows, it cannot be above 0.25'
        """
        shares = [share for world in self.values if math.isfinite(share := self.share_claimed(world))]
        if self.of_one_level or not shares or (max(shares) > 0 and min(shares) < 1):
            return ""
        verb = "cannot" if max(shares) == 0 else "can only"
        return f"whatever accuracy follows, it {verb} be {self.claimed}"


@dataclass
class _Draws:
    """The statistics of some claims on as many made-up experiments as have been asked for."""

    made_up: MadeUpRuns
    values: dict[str, dict[World, list[float]]] = field(default_factory=dict)

    def add(self, claims: Sequence[Claim], number: int) -> None:
        """The statistics of these claims on the experiments made up with that number."""
        for world in self.made_up.worlds:
            runs = self.made_up.frames(world, number, number // ALIKE)
            for claim in claims:
                of_claim = self.values.setdefault(claim.name, {each: [] for each in self.made_up.worlds})
                of_claim[world].append(_value(claim, runs))

    def range_of(self, claim: Claim) -> Range:
        """What they say of a claim."""
        return Range(claim.claimed, {w: _means(found) for w, found in self.values[claim.name].items()})


def claim_ranges(experiment: Experiment, replicates: int = REPLICATES) -> dict[str, Range]:
    """The range of each effect whose statistic reads accuracy, by the claim's name, on runs as planned."""
    made_up = MadeUpRuns(experiment)
    reading, draws = _reading_accuracy(experiment, made_up), _Draws(made_up)
    for number in range(replicates if reading else 0):
        draws.add(reading, number)
    _draw_on(draws, reading, replicates)
    return {
        claim.name: replace(each, of_one_level=bool(each.fault) and _depends_on_the_level(claim, made_up))
        for claim in reading
        if (each := draws.range_of(claim)).compares
    }


def refuse_what_decides_nothing(experiment: Experiment) -> None:
    """Raise BadInput for an effect that is undecidable by design, or the same number as another.

    Nothing is asked of what is withdrawn. A claim is set aside as soon as the experiments made up so far show
    that it can be fulfilled and can fail, which for most takes the first few.
    """
    for names in equal_effects([experiment]):
        (_, first), (_, second), *_ = names
        raise BadInput(
            f"the claims {first} and {second} of {experiment.name} are one number under two names; leave one "
            "of them out"
        )
    made_up = MadeUpRuns(experiment)
    draws = _Draws(made_up)
    asked = [
        claim
        for claim in _reading_accuracy(experiment, made_up)
        if claim.role == "effect" and not _depends_on_the_level(claim, made_up)
    ]
    for claim in _draw_on(draws, asked, begun=0):
        raise BadInput(
            f"the claim {claim.name} of {experiment.name} decides nothing: {draws.range_of(claim).fault}; "
            "give it another bound or statistic, or mark it withdrawn"
        )


def _draw_on(draws: _Draws, claims: Sequence[Claim], begun: int) -> list[Claim]:
    """Make up more experiments for claims that none yet has shown to decide; those that none shows to."""
    asked, done = list(claims), begun
    while True:
        found = {claim.name: draws.range_of(claim) for claim in asked if done}
        doubted = {name for name, each in found.items() if each.fault and (each.compares or each.unknown)}
        asked = [each for each in asked if not done or each.name in doubted]
        if not asked or done >= MOST_REPLICATES:
            return [each for each in asked if found[each.name].compares]
        for number in range(done, done + ALIKE):
            draws.add(asked, number)
        done += ALIKE


def equal_effects(experiments: Sequence[Experiment]) -> list[tuple[tuple[str, str], ...]]:
    """Effects that are one number on the same runs, each group as (experiment, claim).

    They are found on runs that are made up: a run, and what is measured on it, is the same there in every
    experiment that has it, under whatever name.
    """
    named: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for experiment in experiments:
        effects = [claim for claim in experiment.claims if claim.role == "effect"]
        made_up = MadeUpRuns(experiment)
        frames = [made_up.frames(World.NEITHER, n, n) for n in range(2)] if effects else []
        for claim in effects:
            values = [_value(claim, runs) for runs in frames]
            if (
                np.isfinite(values).all() and len(set(values)) > 1
            ):  # a constant, such as a share, may be another's
                key = tuple(f"{value:.10e}" for value in values)
                named.setdefault(key, []).append((experiment.name, claim.name))
    return [tuple(names) for names in named.values() if len(names) > 1]


def _reading_accuracy(experiment: Experiment, made_up: MadeUpRuns) -> list[Claim]:
    """The effects, withdrawn ones among them, whose statistics are there with accuracies alone."""
    effects = [claim for claim in experiment.claims if claim.kind == "effect"]
    if not effects:
        return []
    without, having = (made_up.frames(world, 0, 0) for world in (None, World.FLATNESS))
    return [
        claim for claim in effects if np.isnan(_value(claim, without)) and not np.isnan(_value(claim, having))
    ]


MOVED = ((0.0, 1.0), (-0.75, 1.0), (0.19, 1.0), (0.0, 1 / 3), (0.0, 3.0))
"""By how much accuracies are moved, to where nearly nothing is learnt, and nearly everything; and by what
their differences are multiplied: a doubling may cost a point, or eleven."""


def _depends_on_the_level(claim: Claim, made_up: MadeUpRuns) -> bool:
    """Whether the claim holds at one level of accuracy and not at another, as of a mean, or of a slope.

    Accuracies are made up around a single level, at which such a claim cannot be both. A level at which the
    statistic is undefined, such as ranks where all is learnt, says nothing.
    """
    without, having = (made_up.frames(world, 0, 0) for world in (None, World.FLATNESS))
    holds = set()
    for by, times in MOVED:
        moved = [
            run.with_columns(
                ((pl.col(name) - ACCURACY) * times + ACCURACY + by).clip(0.01, 1.0)
                for name in run.columns
                if name not in known.columns
            )
            for run, known in zip(having, without, strict=True)
        ]
        if math.isfinite(value := _value(claim, moved)):
            holds.add(claim.claimed.low < value < claim.claimed.high)
    return len(holds) > 1


def _means(values: list[float]) -> tuple[float, ...]:
    """Over consecutive experiments that share what labels add, of those for which it is defined."""
    alike = [values[first : first + ALIKE] for first in range(0, len(values), ALIKE)]
    known = [[value for value in each if math.isfinite(value)] for each in alike]
    return tuple(float(np.mean(each)) if each else math.nan for each in known)


def _value(claim: Claim, runs: list[pl.DataFrame]) -> float:
    try:
        return float(claim.statistic(runs))
    except (KeyError, IndexError, ValueError, ZeroDivisionError, pl.exceptions.PolarsError):
        return float("nan")  # a statistic of what is not made up, such as a reference
