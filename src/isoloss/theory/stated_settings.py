"""A statement's settings as names and values: frozen dataclasses of numbers and tuples of numbers."""

from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def stated(settings: "DataclassInstance") -> tuple[tuple[str, str], ...]:
    """Every field and its value, in order, as `Statement.settings` has them.

    >>> from dataclasses import make_dataclass
    >>> stated(make_dataclass("S", ["length", "seeds"])(6, (1, 2)))
    (('length', '6'), ('seeds', '1, 2'))
    """
    return tuple(
        (name, ", ".join(map(str, value)) if isinstance(value, tuple) else str(value))
        for name, value in asdict(settings).items()
    )
