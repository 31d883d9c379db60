"""A record: one measured number with its unit, error bar, n, and where it comes from."""

from dataclasses import dataclass, field

Setting = str | int | float | bool | None


@dataclass(frozen=True)
class Record:
    """Every number that is ever shown is one of these.

    `standard_error` is None only where the number is exact. `n` counts the independent units behind the
    error bar (sentences, unless the quantity's own documentation says otherwise). `checkpoint` names the
    model measured, empty for a property of the language alone. `settings` holds what distinguishes two
    records of one quantity: a step, a size, a task.

    >>> Record("mean_length", 16.0, "words", 0.0, 1000).quantity
    'mean_length'
    """

    quantity: str
    value: float
    unit: str
    standard_error: float | None
    n: int
    seed: int | None = None
    checkpoint: str = ""
    settings: dict[str, Setting] = field(default_factory=dict)
