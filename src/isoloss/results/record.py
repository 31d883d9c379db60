"""A record: one measured number with its unit, error bar, n and provenance."""

from dataclasses import dataclass, field

Setting = str | int | float | bool | None


@dataclass(frozen=True)
class Record:
    """A measured number; every number that is shown is one.

    `standard_error` is None only if the number is exact. `n` counts the independent units behind the error
    bar (sentences, unless the quantity's own documentation says otherwise). `checkpoint` names the model
    measured and is empty for a property of the language alone. `settings` holds what distinguishes records of
    the same quantity, such as a step, a size or a task.

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
