"""SGD continued from saturated models, to follow the trace of the Hessian (Theorem 3.3, B.2)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from isoloss.errors import BadInput
from isoloss.experiments.language_runs import AnyRuns, runs_of_sizes, width_of
from isoloss.experiments.measured_at import MeasuredAt
from isoloss.experiments.planned_run import Continued, PlannedRun
from isoloss.pretraining.sgd import SGD

OTHER_SENTENCES = 10_000
"""What SGD's seed is above that of the run it continues, whose sentences it must not see again."""


@dataclass(frozen=True)
class DescentRuns:
    """SGD on the models of one `width`, one run per seed, from their last checkpoints or from initialisation.

    The last checkpoints are nearest to the minimum from which Theorem 3.3 starts; from initialisation is how
    the paper pre-trains (B.2). There is no dropout: the theorem is about SGD on the loss itself, and the
    paper does not say. The first of `checkpoint_steps` may be early, to show where SGD starts; claims are
    judged on those after the warm-up. `averaging_horizon` is the number of steps over which checkpoint
    weights are averaged. `own_seeds` replace those of the runs that it continues.
    """

    width: int
    update_rule: SGD
    batch_size: int
    steps: int
    checkpoint_steps: tuple[int, ...]
    averaging_horizon: int | None = None
    start: Literal["last checkpoint", "fresh weights"] = "last checkpoint"
    own_seeds: tuple[int, ...] | None = None

    @property
    def drift_time(self) -> float:
        """η²k/4B, how long k steps at rate η and batch B drift along the minima (Theorem 3.3).

        >>> f"{DescentRuns(1024, SGD(), 4096, 120_000, ()).drift_time:.1e}"
        '7.3e-06'
        """
        return self.update_rule.learning_rate**2 * self.steps / (4 * self.batch_size)

    @property
    def saturated_from(self) -> int:
        """The end of the warm-up: the loss was already saturated, and from here on the rate is constant."""
        return math.ceil(self.update_rule.warm_up_share * self.steps)


@dataclass(frozen=True)
class Descents:
    """SGD on each of the languages that the paper runs it on."""

    grammar: DescentRuns
    hidden_markov: DescentRuns


def descents(
    descent: DescentRuns, runs: AnyRuns, seeds: Sequence[int], measured: tuple[MeasuredAt, ...]
) -> tuple[PlannedRun, ...]:
    """A run of SGD for each seed, continuing AdamW's of its width. Raises BadInput if none has that width."""
    chosen = tuple(model for model in runs.architectures if width_of(model) == descent.width)
    if not chosen:
        widths = ", ".join(str(width_of(model)) for model in runs.architectures)
        raise BadInput(f"no model of width {descent.width} is there to continue; choose {widths}")
    continued = descent.start == "last checkpoint"
    own_seeds = descent.own_seeds or runs.own_seeds
    origins = runs_of_sizes(replace(runs, architectures=chosen[:1], own_seeds=own_seeds), seeds, ())
    return tuple(
        PlannedRun(
            name=f"sgd-{origin.name}",
            language=runs.language,
            architecture=replace(chosen[0], dropout=0.0),
            update_rule=descent.update_rule,
            steps=descent.steps,
            batch_size=descent.batch_size,
            seed=origin.seed + OTHER_SENTENCES if continued else origin.seed,
            checkpoint_steps=descent.checkpoint_steps,
            saturated_from=descent.saturated_from,
            measured=measured,
            labels=origin.labels,
            continues=Continued(origin, origin.steps) if continued else None,
            averaging_horizon=descent.averaging_horizon,
        )
        for origin in origins
    )
