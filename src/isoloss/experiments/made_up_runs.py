"""Runs as planned with made-up numbers, in worlds where it is known what accuracy follows.

A run, and what is measured on it, has the same numbers in every experiment, whatever they are called there.
"""

import hashlib
import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache

import numpy as np
import polars as pl
from jaxtyping import Float

from isoloss.experiments.experiment import Experiment
from isoloss.experiments.misspelt_names import COUNTS, TEXTS
from isoloss.experiments.planned_run import MeasuredAt, PlannedRun
from isoloss.measurements.accuracy import AccuracyQuantity
from isoloss.measurements.quantity import Quantity
from isoloss.measurements.references import ControlQuantity
from isoloss.measurements.sample_efficiency import CountErrorQuantity, SampleEfficiencyQuantity
from isoloss.models.transformers import Architecture, parameter_count
from isoloss.pretraining.polishing import Polished

PACKAGE = __name__.partition(".")[0]
FALL_OF_TRACE, FALL_OF_KL = (0.98, 0.08), (0.61, 0.24)
"""Halvings for each doubling of steps, mean and standard deviation over runs, as in the ten
shipped runs of Figure 1 at laptop scale, from saturation on."""
BETWEEN_VARIANTS, BETWEEN_SEEDS, BETWEEN_RUNS = 0.6, 0.15, 0.12
"""Standard deviations, in doublings, of what a variant (a width, a rule), a seed and a run add:
assumed, of the order of what widths and seeds differ by."""
OF_A_TRACE, OF_KL = 0.025, 0.094
"""Standard deviations of a checkpoint about its run's line, in doublings; of the same runs."""
OF_POLISHED = 0.14
"""The same of the KL to which models are polished, which no variant or seed changes: a tenth of it."""
ACCURACY, A_DOUBLING = 0.8, 0.037
"""Accuracy at the outset, and its fall for each doubling: as it follows log2 KL within runs at night."""
ENTROPY, KL, TRACE = 1.4, 0.005, 20.0

OTHER_MEASURES = (
    *("root_fisher", "normalised_trace", "wholly_normalised_trace", "top_eigenvalue", "gradient_norm"),
    *("sam_", "noise_", "predicted_descent", "feature_mean"),
)
"""How columns begin of other measures of flatness, or of what may go with it: each falls as the trace does,
with errors of its own."""
ACCURACIES = (AccuracyQuantity, ControlQuantity, CountErrorQuantity, SampleEfficiencyQuantity)
"""The quantities whose columns are accuracies, or an untrained model's, or a probe's errors."""
LEARNT = 5.0
"""Doublings by which a model before training is behind, where accuracy follows anything."""


class World(StrEnum):
    """What accuracy follows."""

    FLATNESS = "flatness"
    KNOWLEDGE = "knowledge"
    NEITHER = "neither"
    BY_LANGUAGE = "flatness on some languages and knowledge on the others"


class MadeUpRuns:
    """An experiment's runs as planned; all numbers but accuracies are the same in all worlds."""

    def __init__(self, experiment: Experiment) -> None:
        languages = list(dict.fromkeys(run.language.digest for run in experiment.runs))
        planned = (_Planned(run, languages.index(run.language.digest)) for run in experiment.runs)
        self._planned = [each for each in planned if each.steps]
        self.worlds = tuple(World) if len(languages) > 1 else tuple(World)[:-1]
        """Those that differ: with one language the last is one of the first two."""
        self._made: tuple[tuple[int, int], list[_MadeUp]] = (0, 0), []

    def frames(self, world: World | None, number: int, of_variants: int) -> list[pl.DataFrame]:
        """A frame for each run, of its judged checkpoints.

        `number` is that of the experiment, `of_variants` that of what variants add. Without a world
        accuracies are left out.
        """
        asked = number, of_variants
        if self._made[0] != asked or not self._made[1]:
            self._made = asked, [_MadeUp(each, *asked) for each in self._planned]
        return [each.frame(world) for each in self._made[1]]


@dataclass(frozen=True)
class _Planned:
    """A run, and of its frame what is the same in every experiment that is made up."""

    run: PlannedRun
    language: int  # its number among those of the experiment

    @cached_property
    def steps(self) -> list[int]:
        """Those of its judged checkpoints on which anything is measured."""
        measured = {step for each in self.run.measured for step in each.steps}
        return [s for s in self.run.checkpoint_steps if s >= self.run.saturated_from and s in measured]

    @cached_property
    def judged(self) -> np.ndarray:
        """Which of its checkpoints these are."""
        return np.isin(self.run.checkpoint_steps, self.steps)

    @cached_property
    def doublings(self) -> Float[np.ndarray, " n"]:
        """Of the steps, since its first checkpoint."""
        return np.log2(np.array(self.steps) / self.run.checkpoint_steps[0])

    @cached_property
    def variant(self) -> str:
        """What it is apart from its seed."""
        return _variant(self.run)

    @cached_property
    def start(self) -> str:
        """The same of the run that it goes back to, through those that it continues."""
        run = self.run
        while run.continues:
            run = run.continues.run
        return _variant(run)

    @cached_property
    def columns(self) -> dict[str, MeasuredAt]:
        """What is measured on it, by the name of each column."""
        return {name: each for each in self.run.measured for name in each.column_names}

    @cached_property
    def constants(self) -> pl.DataFrame:
        """The columns in which nothing is drawn."""
        same: dict[str, object] = {"run": self.run.name, "seed": self.run.first_seed}
        same |= {**dict(self.run.labels), "saturated": True, "complete": True}
        for name in self.columns:
            if (value := self._constant(name.removeprefix("raw_"))) is not None:
                same[name] = value
        # A list for each column: polars takes a millisecond to repeat a single value.
        return pl.DataFrame({"step": self.steps, **{k: [v] * len(self.steps) for k, v in same.items()}})

    @cached_property
    def drawn(self) -> dict[str, MeasuredAt]:
        """The other columns that are losses, measures of flatness or accuracies of the whole model.

        What else is measured, such as a user's own quantity, or of a damaged or fine-tuned model, is left
        out: what that would be, nothing here says.
        """
        named = {name: name.removeprefix("raw_") for name in self.columns if name not in self.constants}
        return {
            name: self.columns[name]
            for name, plain in named.items()
            if not plain.startswith("kl_")
            and not plain.endswith(("_kl", "_steps"))
            and _is_made_up(plain, self.columns[name].quantity)
        }

    def _constant(self, name: str) -> object:
        if name.startswith(TEXTS):
            return "made up"
        if name.endswith(("_error", "_deviation")):
            return 0.004
        if name == "parameters":
            return _parameters(self.run.architecture, self.run.language.words)  # type: ignore[arg-type]
        if name.endswith(COUNTS):
            return 1000
        return ENTROPY if name == "entropy" else None


@dataclass(frozen=True)
class _MadeUp:
    """One run's numbers; see `MadeUpRuns.frames`."""

    planned: _Planned
    number: int
    of_variants: int

    def frame(self, world: World | None) -> pl.DataFrame:
        """A row for each step."""
        if world is None:
            return self._without_accuracy
        columns = [
            pl.Series(name, self._accuracy(name.removeprefix("raw_"), measured, world))
            for name, measured in self.planned.drawn.items()
            if name not in self._without_accuracy.columns
        ]
        return self._without_accuracy.hstack(columns)

    @cached_property
    def _without_accuracy(self) -> pl.DataFrame:
        found = {name: self._column(name.removeprefix("raw_")) for name in self.planned.drawn}
        columns = [pl.Series(name, values) for name, values in found.items() if values is not None]
        return self.planned.constants.hstack(columns)

    def _column(self, name: str) -> Float[np.ndarray, " n"] | None:
        """Of a loss or a measure of flatness; None for an accuracy."""
        if name == "kl" or name.endswith("loss"):
            return (0.0 if name == "kl" else ENTROPY) + KL * 2**self._kl
        if name.startswith("trace_"):
            generator = _generator(self.number, self.planned.run.digest, name)
            return TRACE * 2 ** (self._trace + generator.normal(0, OF_A_TRACE, len(self.planned.steps)))
        if name.startswith("trace"):
            return TRACE * 2**self._trace
        if name.startswith(OTHER_MEASURES):
            return TRACE * 2 ** self._falling(name, FALL_OF_TRACE, OF_A_TRACE)
        return None

    def _accuracy(self, name: str, measured: MeasuredAt, world: World) -> Float[np.ndarray, " n"]:
        """Of a probe, of a count of its errors, or of a model before training."""
        if name.startswith("untrained") or name.endswith("untrained"):
            neither = world is World.NEITHER
            behind = float(self._neither(name, measured).mean()) if neither else LEARNT
            return np.full(len(self.planned.steps), ACCURACY - A_DOUBLING * behind)
        match world:
            case World.FLATNESS:
                followed = self._trace
            case World.KNOWLEDGE:
                followed = self._kl
            case World.NEITHER:
                followed = self._neither(name, measured)
            case World.BY_LANGUAGE:
                # A bit a language: from draw to draw, all ways to divide three of them come up.
                follows_trace = self.of_variants >> self.planned.language % 3 & 1
                followed = self._trace if follows_trace else self._kl
        return 2**followed if name.startswith("count_error") else ACCURACY - A_DOUBLING * followed

    @cached_property
    def _trace(self) -> Float[np.ndarray, " n"]:
        return self._falling("trace", FALL_OF_TRACE, OF_A_TRACE)

    @cached_property
    def _kl(self) -> Float[np.ndarray, " n"]:
        run = self.planned.run
        if not isinstance(run.update_rule, Polished):
            return self._falling("kl", FALL_OF_KL, OF_KL)
        errors = _generator(self.number, run.digest, "kl").normal(0, OF_POLISHED, len(self.planned.steps))
        polished: Float[np.ndarray, " n"] = math.log2(run.update_rule.divergence / KL) + errors
        return polished

    def _neither(self, name: str, measured: MeasuredAt) -> Float[np.ndarray, " n"]:
        digest = _quantity(measured.quantity, self.planned.run)  # type: ignore[arg-type]
        examples = name.rpartition("_")[2]  # one quantity may be of several numbers of examples
        # The branches that are polished to one KL differ in nothing else that accuracy could follow.
        variant = self.planned.start if isinstance(self.planned.run.update_rule, Polished) else None
        return self._falling(digest + examples * examples.isdigit(), (0.0, 0.0), OF_KL, variant)

    def _falling(
        self, what: str, fall: tuple[float, float], error: float, variant: str | None = None
    ) -> Float[np.ndarray, " n"]:
        """In doublings: a line over the doublings of steps with what variant, seed and run add to it."""
        run = self.planned.run
        of_variant = _generator(self.of_variants, variant or self.planned.variant, what).normal(
            0, BETWEEN_VARIANTS
        )
        of_seed = _generator(self.number, run.first_seed, what).normal(0, BETWEEN_SEEDS)
        generator = _generator(self.number, run.digest, what)
        level = of_variant + of_seed + generator.normal(0, BETWEEN_RUNS)
        slope = max(0.0, generator.normal(*fall))
        # One error for each checkpoint of the run, so that it is the same where fewer of them are judged.
        errors = generator.normal(0, error, len(run.checkpoint_steps))
        moved: Float[np.ndarray, " n"] = level - slope * self.planned.doublings + errors[self.planned.judged]
        return moved


def _is_made_up(name: str, quantity: object) -> bool:
    if not type(quantity).__module__.startswith(f"{PACKAGE}."):
        return False  # a user's own, whatever its columns are called
    measure = name == "kl" or name.endswith("loss") or name.startswith(("trace", *OTHER_MEASURES))
    return measure or isinstance(quantity, ACCURACIES)


def _generator(*of: object) -> np.random.Generator:
    """Random numbers that depend on these alone."""
    digest = hashlib.sha256(repr(of).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


@lru_cache(maxsize=8192)
def _variant(run: PlannedRun) -> str:
    """What a run is apart from its seed, and the seed of the run that it continues."""
    return run.changed(lambda run: replace(run, seed=0)).digest


@lru_cache(maxsize=8192)
def _quantity(quantity: Quantity, run: PlannedRun) -> str:
    return run.measured_on(quantity)


@lru_cache(maxsize=1024)
def _parameters(architecture: Architecture, words: int) -> int:
    return parameter_count(architecture, words, maximum_length=8)
