"""The time by which SGD's drift towards flatter minima goes (Theorem 3.3), also of averaged weights."""

import math
from dataclasses import dataclass

from isoloss.errors import BadInput

FEWEST_AVERAGED = 200
RETURNS_AVERAGED = 40


@dataclass(frozen=True)
class Pace:
    """A learning rate η and a batch of B sentences: how fast plain SGD drifts.

    Raises BadInput unless both are positive.
    """

    learning_rate: float
    batch_size: int

    def __post_init__(self) -> None:
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate)) or self.batch_size < 1:
            raise BadInput(
                f"SGD needs a learning rate above 0 and a batch of at least 1, not {self.learning_rate} and "
                f"{self.batch_size}"
            )

    def __str__(self) -> str:
        """In words.

        >>> str(Pace(0.4, 1024))
        'η 0.4, B 1,024'
        """
        return f"η {self.learning_rate:g}, B {self.batch_size:,}"

    @property
    def key(self) -> str:
        """A name without spaces.

        >>> Pace(0.4, 128).key
        'rate-0.4-batch-128'
        """
        return f"rate-{self.learning_rate:g}-batch-{self.batch_size}"

    @property
    def time_per_step(self) -> float:
        """η² / 4B: with it Theorem 3.3's dθ/dt = -(1/4B) ∇_Γ Tr ∇²L, t = kη², is dθ/dτ = -∇_Γ Tr ∇²L."""
        return self.learning_rate**2 / (4 * self.batch_size)

    @property
    def horizon(self) -> int:
        """Over how many steps weights are averaged: 40 / η, and 200 at least.

        Along a direction of curvature λ SGD comes back to Γ in 1 / ηλ steps, so that noise along all of λ
        above 1/40 averages out.

        >>> Pace(0.4, 128).horizon, Pace(0.1, 128).horizon
        (200, 400)
        """
        return max(FEWEST_AVERAGED, math.ceil(RETURNS_AVERAGED / self.learning_rate))

    def time(self, step: int) -> float:
        """τ = η² k̄ / 4B of the averaged weights of step k: k̄ is the mean of the steps in their average.

        >>> Pace(0.4, 128).time(200) == Pace(0.4, 128).time_per_step * 100.5
        True
        """
        return self.time_per_step * mean_step(step, self.horizon)

    def step_at(self, time: float) -> int:
        """The step whose averaged weights have that time, or the nearest after it.

        >>> [Pace(0.4, 128).step_at(time) for time in (0.1, 0.2)]
        [497, 835]
        """
        first, last = 0, self.horizon + math.ceil(time / self.time_per_step)
        while last - first > 1:
            middle = (first + last) // 2
            first, last = (first, middle) if self.time(middle) >= time else (middle, last)
        return last


def paces(text: str) -> tuple[Pace, ...]:
    """Learning rates and batches as they are written on the command line.

    Raises BadInput for what is none.

    >>> [str(pace) for pace in paces("0.2:32,0.4:128")]
    ['η 0.2, B 32', 'η 0.4, B 128']
    """
    found = []
    for part in text.split(","):
        rate, _, batch = part.partition(":")
        try:
            numbers = float(rate), int(batch)
        except ValueError as error:
            raise BadInput(
                f"{part!r} is no learning rate and batch; write them with a colon, and commas between, such "
                "as 0.2:32,0.4:128"
            ) from error
        found.append(Pace(*numbers))
    return tuple(found)


def mean_step(step: int, horizon: int) -> float:
    """The mean, so weighted, of the steps that `WeightAverage` has taken in by `step`.

    Until `horizon` h it is the plain mean, (k + 1) / 2. From then on k̄ ← k̄ + (k - k̄) / h, so that it stays
    behind by k - k̄ = (h - 1) (1 - ½ (1 - 1/h)^(k - h)), which goes to h - 1.

    >>> mean_step(1, 200), mean_step(200, 200), round(10_000 - mean_step(10_000, 200), 6)
    (1.0, 100.5, 199.0)
    """
    if step <= horizon:
        return (step + 1) / 2
    return step - (horizon - 1) * (1 - 0.5 * (1 - 1 / horizon) ** (step - horizon))
