"""What a claim's statistic would be on the planned runs, were it known what accuracy follows.

Before anything is run, experiments are made up in which the trace of the Hessian and KL(distribution ||
model) fall along each run as they do in pre-training, and accuracy is exactly -log2 of the trace, exactly
-log2 of KL, or independent of both. A statistic that in the mean over seeds never lies in the claimed region,
whichever it is, or never outside, cannot decide between them: the claim is undecidable by design.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import polars as pl
from jaxtyping import Float

from isoloss.experiments.claims import Claim
from isoloss.experiments.experiment import COUNTS, TEXTS, Experiment
from isoloss.experiments.planned_run import PlannedRun
from isoloss.progress import Progress, silent
from isoloss.results.verdict import Region

REPLICATES, ALIKE = 24, 4
"""How many experiments are made up, and of how many in a row labels add the same: errors average out."""
FALL_OF_TRACE, FALL_OF_KL = (0.98, 0.08), (0.61, 0.24)
"""Halvings for each doubling of steps, mean and standard deviation over runs, as in the ten
shipped runs of Figure 1 at laptop scale, from saturation on."""
BETWEEN_VARIANTS, BETWEEN_SEEDS, BETWEEN_RUNS = 0.6, 0.15, 0.12
"""Standard deviations, in doublings, of what a label (a width, a rule), a seed and a run add:
assumed, of the order of what widths and seeds differ by."""
OF_A_TRACE, OF_KL = 0.025, 0.094
"""Standard deviations of a checkpoint about its run's line, in doublings; of the same runs."""
ACCURACY, A_DOUBLING = 0.8, 0.037
"""Accuracy at the outset, and its fall for each doubling: as it follows log2 KL within runs at night."""
ENTROPY, KL, TRACE = 1.4, 0.005, 20.0

OTHER_MEASURES = (
    *("root_fisher", "normalised_trace", "wholly_normalised_trace", "top_eigenvalue", "gradient_norm"),
    *("sam_", "noise_", "predicted_descent"),
)
"""How columns begin of other measures of flatness: each falls as the trace does, with errors of its own."""
LEARNT = 5.0
"""Doublings by which a model before training is behind, where accuracy follows anything."""


class World(StrEnum):
    """What accuracy follows."""

    FLATNESS = "flatness"
    KNOWLEDGE = "knowledge"
    NEITHER = "neither"


@dataclass(frozen=True)
class Range:
    """A claim's statistic in each world, a mean over experiments for each draw of what labels add.

    nan where it is undefined.
    """

    claimed: Region
    values: dict[World, tuple[float, ...]]

    @property
    def compares(self) -> bool:
        """Whether it sets accuracy against something, unlike the gap of two probes: 0, and claimed to be.

        Where ranks along all runs are the same, what accuracy follows makes no difference, and it is 0 too.
        """
        first, *others = (np.array(self.values[world]) for world in World)
        differs = any(not np.array_equal(first, other, equal_nan=True) for other in others)
        return differs or (not first.any() and not self.claimed.low < 0 < self.claimed.high)

    def mean(self, world: World) -> float:
        """The mean over the draws for which it is defined; nan if there is none."""
        values = np.array(self.values[world])
        known = values[np.isfinite(values)]
        return float(known.mean()) if len(known) else float("nan")

    def share_claimed(self, world: World) -> float:
        """For how many of the draws it lies in the claimed region, as a share."""
        inside = [self.claimed.low < value < self.claimed.high for value in self.values[world]]
        return float(np.mean(inside))

    @property
    def fault(self) -> str:
        """Why it decides nothing, as a sentence; empty if it can.

        >>> from isoloss.results.verdict import above
        >>> values = {World.FLATNESS: (0.1,), World.KNOWLEDGE: (-0.1,), World.NEITHER: (0.0,)}
        >>> Range(above(0.25), values).fault
        'whatever accuracy follows, it cannot be above 0.25'
        """
        shares = [self.share_claimed(world) for world in World]
        if max(shares) > 0 and min(shares) < 1:
            return ""
        verb = "cannot" if max(shares) == 0 else "can only"
        return f"whatever accuracy follows, it {verb} be {self.claimed}"


def claim_ranges(
    experiment: Experiment, replicates: int = REPLICATES, progress: Progress = silent
) -> dict[str, Range]:
    """The range of each effect whose statistic reads accuracy, by the claim's name, on runs as planned."""
    reading = _reading_accuracy(experiment)
    values: dict[str, dict[World, list[float]]] = {claim.name: {w: [] for w in World} for claim in reading}
    for number in range(replicates):
        for world in World:
            runs = list(_frames(experiment, world, number)) if reading else []
            for claim in reading:
                values[claim.name][world].append(_value(claim, runs))
        progress("range of the claims", number + 1, replicates, experiment.name)
    found = {claim.name: _range(claim, values) for claim in reading}
    return {name: each for name, each in found.items() if each.compares}


def _reading_accuracy(experiment: Experiment) -> list[Claim]:
    """The effects whose statistics are there with accuracies alone."""
    effects = [claim for claim in experiment.claims if claim.kind == "effect"]
    if not effects:
        return []
    without, having = (list(_frames(experiment, world, 0)) for world in (None, World.FLATNESS))
    return [
        claim for claim in effects if np.isnan(_value(claim, without)) and not np.isnan(_value(claim, having))
    ]


def _range(claim: Claim, values: dict[str, dict[World, list[float]]]) -> Range:
    return Range(claim.claimed, {world: _means(found) for world, found in values[claim.name].items()})


def _means(values: list[float]) -> tuple[float, ...]:
    """Over consecutive experiments that share what labels add."""
    alike = [values[first : first + ALIKE] for first in range(0, len(values), ALIKE)]
    return tuple(float(np.mean(each)) for each in alike)


def _value(claim: Claim, runs: list[pl.DataFrame]) -> float:
    try:
        return float(claim.statistic(runs))
    except (KeyError, IndexError, ValueError, ZeroDivisionError, pl.exceptions.PolarsError):
        return float("nan")  # a statistic of what is not made up, such as a reference


def _frames(experiment: Experiment, world: World | None, number: int) -> Iterator[pl.DataFrame]:
    """A made-up frame for each run, of its judged checkpoints; traces and KL are the same in all worlds.

    Without a world accuracies are left out.
    """
    generator, of_labels = np.random.default_rng([0, number]), np.random.default_rng([1, number // ALIKE])
    of_variants: dict[object, Float[np.ndarray, " 3"]] = {}
    of_seeds: dict[int, Float[np.ndarray, " 3"]] = {}
    for run in experiment.runs:
        steps = [step for step in run.checkpoint_steps if step >= run.saturated_from]
        steps = [step for step in steps if any(step in measured.steps for measured in run.measured)]
        if steps:
            variant = of_variants.setdefault(run.labels, of_labels.normal(0, BETWEEN_VARIANTS, 3))
            seed = of_seeds.setdefault(run.first_seed, generator.normal(0, BETWEEN_SEEDS, 3))
            yield _frame(run, steps, world, variant + seed, generator)


def _frame(
    run: PlannedRun,
    steps: list[int],
    world: World | None,
    above_mean: Float[np.ndarray, " 3"],
    generator: np.random.Generator,
) -> pl.DataFrame:
    doublings = np.log2(np.array(steps) / steps[0])

    def falling(fall: tuple[float, float], error: float, offset: float) -> Float[np.ndarray, " n"]:
        level = offset + generator.normal(0, BETWEEN_RUNS)
        slope = max(0.0, generator.normal(*fall))
        moved: Float[np.ndarray, " n"] = level - slope * doublings + generator.normal(0, error, len(steps))
        return moved

    trace = falling(FALL_OF_TRACE, OF_A_TRACE, above_mean[0])
    kl = falling(FALL_OF_KL, OF_KL, above_mean[1])
    neither = falling((0.0, 0.0), OF_KL, above_mean[2])
    followed = {World.FLATNESS: trace, World.KNOWLEDGE: kl}.get(world or World.NEITHER, neither)
    untrained = neither.mean() if world is World.NEITHER else LEARNT

    def column(name: str) -> object:
        if name.startswith(TEXTS):
            return "made up"
        if name.endswith(("_error", "_deviation")):
            return 0.004
        if name.endswith(COUNTS):
            return 1000
        if name.startswith("untrained") or name.endswith("untrained"):
            return ACCURACY - A_DOUBLING * float(untrained)
        if name.startswith("kl_") or name.endswith(("_kl", "_steps")):
            return None  # of damaged or fine-tuned models, which no world says anything of
        if name == "entropy":
            return ENTROPY
        if name == "kl" or name.endswith("loss"):
            return (0.0 if name == "kl" else ENTROPY) + KL * 2**kl
        if name.startswith("trace"):
            return TRACE * 2**trace
        if name.startswith(OTHER_MEASURES):
            return TRACE * 2 ** falling(FALL_OF_TRACE, OF_A_TRACE, generator.normal(0, BETWEEN_VARIANTS))
        if world is None:
            return None
        if name.startswith("count_error"):
            return 2**followed
        return ACCURACY - A_DOUBLING * followed

    names = [name for measured in run.measured for name in measured.column_names]
    values = {name: column(name.removeprefix("raw_")) for name in names}
    columns = {name: _series(value, len(steps)) for name, value in values.items() if value is not None}
    place = {"run": run.name, "seed": run.first_seed, **dict(run.labels)}
    rows = {name: [value] * len(steps) for name, value in place.items()}
    return pl.DataFrame({**rows, "step": steps, "saturated": True, "complete": True, **columns})


def _series(value: object, length: int) -> list[object]:
    return value.tolist() if isinstance(value, np.ndarray) else [value] * length
