"""Runs as planned with made-up numbers, in worlds where it is known what accuracy follows.

A run, and what is measured on it, has the same numbers in every experiment, whatever they are called there.
"""

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache

import numpy as np
import polars as pl
from jaxtyping import Float

from isoloss.experiments.experiment import COUNTS, TEXTS, Experiment
from isoloss.experiments.measured_at import MeasuredAt, quantity_digest
from isoloss.experiments.planned_run import Continued, PlannedRun
from isoloss.measurements.quantity import AnyQuantity
from isoloss.models.transformers import Architecture, parameter_count

FALL_OF_TRACE, FALL_OF_KL = (0.98, 0.08), (0.61, 0.24)
"""Halvings for each doubling of steps, mean and standard deviation over runs, as in the ten
shipped runs of Figure 1 at laptop scale, from saturation on."""
BETWEEN_VARIANTS, BETWEEN_SEEDS, BETWEEN_RUNS = 0.6, 0.15, 0.12
"""Standard deviations, in doublings, of what a variant (a width, a rule), a seed and a run add:
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


def made_up_frames(
    experiment: Experiment, world: World | None, number: int, of_variants: int
) -> list[pl.DataFrame]:
    """A frame for each run, of its judged checkpoints; traces and KL are the same in all worlds.

    `number` is that of the experiment, `of_variants` that of what variants add. Without a world accuracies
    are left out.
    """
    made = (_MadeUp(run, world, number, of_variants) for run in experiment.runs)
    return [each.frame() for each in made if each.steps]


@dataclass(frozen=True)
class _MadeUp:
    """One run's numbers; see `made_up_frames`."""

    run: PlannedRun
    world: World | None
    number: int
    of_variants: int

    @cached_property
    def steps(self) -> list[int]:
        """Those of its judged checkpoints on which anything is measured."""
        measured = {step for each in self.run.measured for step in each.steps}
        return [s for s in self.run.checkpoint_steps if s >= self.run.saturated_from and s in measured]

    def frame(self) -> pl.DataFrame:
        """A row for each step."""
        columns: dict[str, object] = {"run": self.run.name, "seed": self.run.first_seed}
        columns |= {**dict(self.run.labels), "saturated": True, "complete": True}
        for measured in self.run.measured:
            for name in measured.column_names:
                value = self._column(name.removeprefix("raw_"), measured)
                if value is not None:
                    columns[name] = value
        # A list for each column: polars takes a millisecond to repeat a single value.
        lists = {
            name: value if isinstance(value, np.ndarray) else [value] * len(self.steps)
            for name, value in columns.items()
        }
        return pl.DataFrame({"step": self.steps, **lists})

    def _column(self, name: str, measured: MeasuredAt) -> object:
        if name.startswith(TEXTS):
            return "made up"
        if name.endswith(("_error", "_deviation")):
            return 0.004
        if name == "parameters":
            return _parameters(self.run.architecture, self.run.language.words)  # type: ignore[arg-type]
        if name.endswith(COUNTS):
            return 1000
        if name.startswith("kl_") or name.endswith(("_kl", "_steps")):
            return None  # of damaged or fine-tuned models, which no world says anything of
        if name == "entropy":
            return ENTROPY
        if name == "kl" or name.endswith("loss"):
            return (0.0 if name == "kl" else ENTROPY) + KL * 2**self._kl
        if name.startswith("trace_"):
            errors = _generator(self.number, self.run.digest, name).normal(0, OF_A_TRACE, len(self.steps))
            return TRACE * 2 ** (self._trace + errors)
        if name.startswith("trace"):
            return TRACE * 2**self._trace
        if name.startswith(OTHER_MEASURES):
            return TRACE * 2 ** self._falling(name, FALL_OF_TRACE, OF_A_TRACE)
        return None if self.world is None else self._accuracy(name, measured)

    def _accuracy(self, name: str, measured: MeasuredAt) -> object:
        """Of a probe, of a count of its errors, or of a model before training."""
        digest = _quantity(measured.quantity, _RunKey(self.run))  # type: ignore[arg-type]
        examples = name.rpartition("_")[2]  # one quantity may be of several numbers of examples
        neither = self._falling(digest + examples * examples.isdigit(), (0.0, 0.0), OF_KL)
        if name.startswith("untrained") or name.endswith("untrained"):
            behind = float(neither.mean()) if self.world is World.NEITHER else LEARNT
            return ACCURACY - A_DOUBLING * behind
        followed = {World.FLATNESS: self._trace, World.KNOWLEDGE: self._kl}.get(
            self.world or World.NEITHER, neither
        )
        return 2**followed if name.startswith("count_error") else ACCURACY - A_DOUBLING * followed

    @cached_property
    def _trace(self) -> Float[np.ndarray, " n"]:
        return self._falling("trace", FALL_OF_TRACE, OF_A_TRACE)

    @cached_property
    def _kl(self) -> Float[np.ndarray, " n"]:
        return self._falling("kl", FALL_OF_KL, OF_KL)

    def _falling(self, what: str, fall: tuple[float, float], error: float) -> Float[np.ndarray, " n"]:
        """In doublings: a line over the doublings of steps with what variant, seed and run add to it."""
        of_variant = _generator(self.of_variants, _variant(_RunKey(self.run)), what).normal(
            0, BETWEEN_VARIANTS
        )
        of_seed = _generator(self.number, self.run.first_seed, what).normal(0, BETWEEN_SEEDS)
        generator = _generator(self.number, self.run.digest, what)
        level = of_variant + of_seed + generator.normal(0, BETWEEN_RUNS)
        slope, steps = max(0.0, generator.normal(*fall)), self.run.checkpoint_steps
        # One error for each checkpoint of the run, so that it is the same where fewer of them are judged.
        errors = generator.normal(0, error, len(steps))
        own = np.isin(steps, self.steps)
        doublings = np.log2(np.array(steps)[own] / steps[0])
        moved: Float[np.ndarray, " n"] = level - slope * doublings + errors[own]
        return moved


def _generator(*of: object) -> np.random.Generator:
    """Random numbers that depend on these alone."""
    digest = hashlib.sha256(repr(of).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


@dataclass(frozen=True, eq=False)
class _RunKey:
    """A run as a cache's key, by its digest: to hash all of its settings takes longer than what is cached."""

    run: PlannedRun

    def __hash__(self) -> int:
        return hash(self.run.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _RunKey) and self.run.digest == other.run.digest


@lru_cache(maxsize=8192)
def _variant(key: _RunKey) -> str:
    """What a run is apart from its seed, and the seed of the run that it continues."""
    return _without_seed(key.run).digest


def _without_seed(run: PlannedRun) -> PlannedRun:
    before = run.continues
    origin = Continued(_without_seed(before.run), before.step) if before else None
    return replace(run, seed=0, continues=origin)


@lru_cache(maxsize=8192)
def _quantity(quantity: AnyQuantity, key: _RunKey) -> str:
    return quantity_digest(quantity, key.run.language.digest, key.run.objective)


@lru_cache(maxsize=64)
def _parameters(architecture: Architecture, words: int) -> int:
    return parameter_count(architecture, words, maximum_length=8)
