"""SGD that goes on from saturated models: what the trace of the Hessian does along it (Theorem 3.3, B.2)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from isoloss.errors import BadInput
from isoloss.experiments.language_runs import AnyRuns, runs_of_sizes, width_of
from isoloss.experiments.planned_run import Continued, PlannedRun
from isoloss.experiments.quantity import MeasuredAt
from isoloss.pretraining.sgd import SGD

OTHER_SENTENCES = 10_000
"""What SGD's seed is above that of the run it continues, whose sentences it must not see again."""


@dataclass(frozen=True)
class DescentRuns:
    """SGD from the first saturated checkpoints of the models of one `width`, one run a seed.

    From the first, so that what AdamW would still do is left to SGD. Without dropout: Theorem 3.3 is about
    SGD on the loss itself, and the paper does not say (B.2). The first of `checkpoint_steps` may come early,
    to show where SGD begins; claims are judged on those after the warm-up.
    """

    width: int
    update_rule: SGD
    batch_size: int
    steps: int
    checkpoint_steps: tuple[int, ...]

    @property
    def saturated_from(self) -> int:
        """The end of the warm-up: the loss was saturated before, and from here on the rate is constant."""
        return math.ceil(self.update_rule.warm_up_share * self.steps)


@dataclass(frozen=True)
class Descents:
    """SGD on each of the languages that the paper runs it on."""

    grammar: DescentRuns
    hidden_markov: DescentRuns


def descents(
    descent: DescentRuns, runs: AnyRuns, seeds: Sequence[int], measured: tuple[MeasuredAt, ...]
) -> tuple[PlannedRun, ...]:
    """A run of SGD for each seed of the runs that it continues. Raises BadInput where none has its width."""
    chosen = tuple(model for model in runs.architectures if width_of(model) == descent.width)
    if not chosen:
        widths = ", ".join(str(width_of(model)) for model in runs.architectures)
        raise BadInput(f"no model of width {descent.width} is there to continue; choose {widths}")
    origins = runs_of_sizes(replace(runs, architectures=chosen[:1]), seeds, ())
    return tuple(
        PlannedRun(
            name=f"sgd-{origin.name}",
            language=runs.language,
            architecture=replace(chosen[0], dropout=0.0),
            update_rule=descent.update_rule,
            steps=descent.steps,
            batch_size=descent.batch_size,
            seed=origin.seed + OTHER_SENTENCES,
            checkpoint_steps=descent.checkpoint_steps,
            saturated_from=descent.saturated_from,
            measured=measured,
            labels=origin.labels,
            continues=Continued(origin, _first_saturated(origin)),
        )
        for origin in origins
    )


def _first_saturated(run: PlannedRun) -> int:
    return next(step for step in run.checkpoint_steps if step >= run.saturated_from)


SMOKE = Descents(
    grammar=DescentRuns(16, SGD(0.01), batch_size=32, steps=20, checkpoint_steps=(1, 10, 20)),
    hidden_markov=DescentRuns(8, SGD(0.01), batch_size=32, steps=20, checkpoint_steps=(1, 10, 20)),
)

_LAPTOP_STEPS = (1, 500, 1000, 1500, 2000, 2500, 3000)

LAPTOP = Descents(
    grammar=DescentRuns(48, SGD(0.1), batch_size=128, steps=3000, checkpoint_steps=_LAPTOP_STEPS),
    hidden_markov=DescentRuns(48, SGD(0.1), batch_size=128, steps=3000, checkpoint_steps=_LAPTOP_STEPS),
)

_PAPER_STEPS = (1, *(15_000 * number for number in range(1, 9)))

PAPER = Descents(
    grammar=DescentRuns(1024, SGD(), batch_size=4096, steps=120_000, checkpoint_steps=_PAPER_STEPS),
    hidden_markov=DescentRuns(768, SGD(), batch_size=4096, steps=120_000, checkpoint_steps=_PAPER_STEPS),
)
"""B.2: 235M parameters on the grammar, the seventh size of Table 3. The 67M on the hidden Markov model are
none of the listed LSTMs as built here; the next to the largest is taken. The paper gives no steps."""
